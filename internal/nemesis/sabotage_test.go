package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSabotagesFit: each sabotage fits the current code, and the overlay replaces the changed
// files.
func TestSabotagesFit(t *testing.T) {
	for _, s := range sabotages {
		path, err := s.overlay(t.Context(), t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		list, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(list), filepath.Join("lockcmd", filepath.FromSlash(s.edits[0].file))) {
			t.Errorf("%s: got %s, %v", s.name, list, err)
		}
	}
	if path, err := (*sabotage)(nil).overlay(t.Context(), t.TempDir()); path != "" || err != nil {
		t.Errorf("no sabotage: got %q, %v", path, err)
	}
	if _, err := sabotageNamed("none"); err == nil {
		t.Error("there is no error for an unknown name")
	}
}
