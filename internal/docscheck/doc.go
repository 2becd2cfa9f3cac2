// Package docscheck keeps docs/ and README.md true. Its tests compare the pages with the source
// tree.
package docscheck
