package config

import (
	"fmt"
	"strings"
)

// ReadPasswordFile returns what UpstreamPasswordFile holds now, without the final line end. It
// reads the file at each call. The error says that the file cannot be read, is empty or too large.
// It never contains the password.
func (c *Config) ReadPasswordFile() (string, error) {
	password, err := readLine(c.UpstreamPasswordFile)
	if err != nil {
		return "", fmt.Errorf("--upstream-password-file: %w", err)
	}
	if strings.TrimSpace(password) == "" {
		return "", fmt.Errorf("--upstream-password-file %q is empty: put the password in it", c.UpstreamPasswordFile)
	}
	return password, nil
}
