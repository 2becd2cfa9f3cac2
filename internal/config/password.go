package config

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"leash/internal/password"
)

// How long one reading of the password may take.
const (
	passwordFileLimit    = 5 * time.Second
	passwordCommandLimit = 10 * time.Second
)

// PasswordSource reads the password of Leash's own user, as it is now, from the file or the
// command. It is nil if there is neither. An error names the flag. It never contains the password.
func (c *Config) PasswordSource() *password.Source {
	switch {
	case len(c.UpstreamPasswordCommand) > 0:
		run := password.Command(c.UpstreamPasswordCommand)
		return password.New(func(ctx context.Context) (string, error) {
			text, err := run(ctx)
			if err != nil {
				return "", fmt.Errorf("--upstream-password-command: %w", err)
			}
			return text, nil
		}, passwordCommandLimit, c.UpstreamPasswordTTL)
	case c.UpstreamPasswordFile != "":
		return fileSource("--upstream-password-file", c.UpstreamPasswordFile)
	}
	return nil
}

// SentinelPasswordSource reads the password for the sentinels, as it is now, from the file. It is
// nil if there is none. An error names the flag. It never contains the password.
func (c *Config) SentinelPasswordSource() *password.Source {
	if c.SentinelPasswordFile == "" {
		return nil
	}
	return fileSource("--sentinel-password-file", c.SentinelPasswordFile)
}

func fileSource(flag, path string) *password.Source {
	return password.New(func(context.Context) (string, error) { return readPasswordFile(flag, path) }, passwordFileLimit, 0)
}

// readPasswordFile returns what the file holds, without the final line end. The error says that the
// file cannot be read, is empty or too large.
func readPasswordFile(flag, path string) (string, error) {
	text, err := readLine(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("%s %q is empty: put the password in it", flag, path)
	}
	return text, nil
}

// hasPassword reports whether Leash's own user has a password.
func (c Config) hasPassword() bool {
	return c.UpstreamPassword != "" || len(c.UpstreamPasswordCommand) > 0
}

// checkPasswordCommand checks that the program exists and gives the only password.
func (c *Config) checkPasswordCommand() error {
	switch {
	case c.UpstreamPasswordFile != "":
		return errors.New("--upstream-password-command and --upstream-password-file are both set: give one of them")
	case c.UpstreamPassword != "":
		return errors.New("--upstream-password-command and --upstream-password are both set: give one of them")
	}
	if _, err := exec.LookPath(c.UpstreamPasswordCommand[0]); err != nil {
		return fmt.Errorf("--upstream-password-command: %w", err)
	}
	return nil
}
