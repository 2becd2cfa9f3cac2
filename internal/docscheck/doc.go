// Package docscheck keeps docs/ and README.md true: its tests compare the pages with the source tree.
package docscheck
