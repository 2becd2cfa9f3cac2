package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"leash/internal/config"
)

// checkSettings is --check-config, for settings that have been parsed. It reads the files that they
// name, runs nothing and connects to nothing.
func checkSettings(cfg config.Config, stdout io.Writer) error {
	if err := checkFiles(cfg); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stdout, "configuration ok")
	return err
}

// checkFiles reports whether a start could use the certificates and the audit log. It changes no
// file.
func checkFiles(cfg config.Config) error {
	if _, err := loadCertificates(cfg, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if cfg.AuditLog == "" || cfg.AuditLog == "stderr" {
		return nil
	}
	f, err := os.OpenFile(cfg.AuditLog, os.O_APPEND|os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		f, err = os.Open(filepath.Dir(cfg.AuditLog)) // a start makes the file
	}
	if err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	return f.Close()
}

// warnOfPublicFile tells the operator that other users can read a password.
func warnOfPublicFile(cfg config.Config, log *slog.Logger) {
	if cfg.FileIsPublic {
		log.Warn("every user of this machine can read the password in the file of --config", "file", cfg.File)
	}
}
