// Package docscheck keeps docs/ and README.md true. Its tests compare the pages with the source
// tree, among them the table of what each package may import and how many files it may have.
package docscheck
