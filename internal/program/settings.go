package program

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

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

func newLogger(format string, level slog.Leveler, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// liveSettings are the settings of the running Leash. SIGHUP reads the file of --config again, and
// LEASH CONFIG SET changes single ones.
type liveSettings struct {
	args, environ []string       // of the start; they beat the file again
	level         *slog.LevelVar // --log-level; only change sets it
	log           *slog.Logger

	// mu guards the fields below. It is held while the parts get their settings, which is quick.
	mu      sync.Mutex
	current config.Config
	parts   func(config.Config) // nil until Redis is connected
}

// follow reads the file of --config at each SIGHUP until stop is called. Call it before the
// hangupReader runs.
func (l *liveSettings) follow(h *hangupReader) (stop func()) {
	if l.current.File == "" {
		return func() {}
	}
	wake := h.wake()
	end := background(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-wake:
				l.reread()
			}
		}
	}, nil)
	return func() { _ = end() }
}

// use gives the parts their settings, now and after each change.
func (l *liveSettings) use(parts func(config.Config)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = parts
	parts(l.current)
}

// drainDelay is --drain-delay as it is now.
func (l *liveSettings) drainDelay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.DrainDelay
}

// reread reads the file of --config. If anything in it is wrong, nothing changes. It blocks for up
// to 5 s if the file of a password cannot be read.
func (l *liveSettings) reread() {
	next, err := config.Parse(l.args, l.environ)
	if err == nil && l.differs(next) {
		err = checkFiles(next)
	}
	if err != nil {
		l.log.Error("new settings are refused, the old ones stay", "file", l.current.File,
			"err", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	warnOfPublicFile(next, l.log)
	n, _ := l.change(func(config.Config) (config.Config, error) { return next, nil }, l.log)
	l.log.Info("settings read again", "differences", n)
}

// differs reports whether a setting of next is not the running one.
func (l *liveSettings) differs(next config.Config) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, changes := l.current.Adopt(next)
	return len(changes) > 0
}

// change takes those settings of next(now) that may change while Leash runs, and logs each
// difference.
func (l *liveSettings) change(next func(now config.Config) (config.Config, error), log *slog.Logger) (n int, err error) {
	l.mu.Lock()
	before := l.current
	wanted, err := next(before)
	if err != nil {
		l.mu.Unlock()
		return 0, err
	}
	adopted, changes := before.Adopt(wanted)
	l.current = adopted
	if l.parts != nil {
		l.parts(adopted)
	}
	l.mu.Unlock()
	l.level.Set(min(before.LogLevel, adopted.LogLevel, slog.LevelInfo)) // so that the lines are seen
	logChanges(changes, log)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level.Set(l.current.LogLevel)
	return len(changes), nil
}

// logChanges writes a line for each setting that differs.
func logChanges(changes []config.Change, log *slog.Logger) {
	for _, c := range changes {
		if c.Live {
			log.Info("setting changed", "setting", c.Name, "old", c.Old, "new", c.New)
		} else {
			log.Warn("a changed setting needs a restart", "setting", c.Name, "running", c.Old, "new", c.New)
		}
	}
}

// All implements operators.ProcessSettings.
func (l *liveSettings) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.Settings()
}

// Set implements operators.ProcessSettings.
func (l *liveSettings) Set(pairs []string, log *slog.Logger) error {
	_, err := l.change(func(now config.Config) (config.Config, error) { return now.Set(pairs) }, log)
	return err
}
