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
		path := c.UpstreamPasswordFile
		return password.New(func(context.Context) (string, error) { return readPasswordFile(path) }, passwordFileLimit, 0)
	}
	return nil
}

// readPasswordFile returns what the file holds, without the final line end. The error says that the
// file cannot be read, is empty or too large.
func readPasswordFile(path string) (string, error) {
	text, err := readLine(path)
	if err != nil {
		return "", fmt.Errorf("--upstream-password-file: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("--upstream-password-file %q is empty: put the password in it", path)
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
