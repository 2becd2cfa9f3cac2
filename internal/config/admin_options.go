package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode"
)

func adminOptions(c *Config) []option {
	return []option{
		{name: "admin", value: text("host:port", &c.Admin),
			summary: "Where metrics, health checks, the console and profiles are served, by HTTP.",
			details: []string{
				"`:port` is the port on this machine only. Port 0 is any free port. " +
					"To serve other machines, give the host, such as `0.0.0.0:9121`.",
				"[metrics](metrics.md) describes the paths `/metrics`, `/livez`, `/readyz` and `/debug/pprof/`, " +
					"[console](console.md) all others. " +
					"Without `--admin-token-file`, everybody who reaches the port can read the metrics.",
			},
			defaultIs: "none"},
		{name: "admin-tls-cert", value: text("path", &c.AdminTLSCert),
			summary: "File with the certificate of the --admin port and the chain behind it, in PEM.",
			details: []string{
				"With the flag, the port speaks HTTPS only. Leash reads the file again as that of `--tls-cert`.",
			},
			defaultIs: "none: the port speaks HTTP"},
		{name: "admin-tls-key", value: text("path", &c.AdminTLSKey),
			summary:   "File with the key of --admin-tls-cert, in PEM.",
			defaultIs: "none"},
		{name: "admin-token-file", value: text("path", &c.AdminTokenFile),
			summary: "File with the token that --admin asks for before it shows anything.",
			details: []string{
				"A client sends it as `Authorization: Bearer <token>`. The health checks ask for no token. " +
					"There are no profiles without a token, and the console serves only this machine.",
				"The file holds the token and nothing else. Leash ignores a line end after it. " +
					"Leash reads the file once, at its start.",
			},
			defaultIs: "none",
			limits:    "at most 64KiB, without spaces"},
		{name: "admin-write-token-file", value: text("path", &c.AdminWriteTokenFile),
			summary: "File with the token that allows to break locks and to kill clients at --admin.",
			details: []string{
				"The token allows what the one of `--admin-token-file` allows as well. " +
					"Without the flag, nobody can change anything at the port. " +
					"The format of the file is that of `--admin-token-file`.",
			},
			defaultIs: "none",
			limits:    "at most 64KiB, without spaces"},
	}
}

// AdminAddr is the address of the admin port. Without a host it is on this machine only.
func (c Config) AdminAddr() string {
	if port, ok := strings.CutPrefix(c.Admin, ":"); ok {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return c.Admin
}

// validateAdmin checks the flags about the admin port.
func (c Config) validateAdmin() error {
	if c.Admin == "" {
		if c.AdminTLSCert != "" || c.AdminTLSKey != "" || c.AdminToken != "" || c.AdminWriteToken != "" {
			return errors.New("--admin-tls-cert, --admin-tls-key, --admin-token-file and --admin-write-token-file " +
				"are for --admin: give it, or remove them")
		}
		return nil
	}
	var errs []error
	host, port, err := net.SplitHostPort(c.Admin)
	switch {
	case err != nil || strings.ContainsFunc(host, unfitForHost) || !validPort(port, 0):
		errs = append(errs, fmt.Errorf("--admin %q is not an address: give host:port, [ipv6]:port or :port", c.Admin))
	case port != "0" && slices.Contains(slices.Concat(c.Listen, c.TLSListen), c.AdminAddr()):
		errs = append(errs, fmt.Errorf("--admin %q is an address for clients as well: give each its own port", c.Admin))
	}
	if (c.AdminTLSCert == "") != (c.AdminTLSKey == "") {
		errs = append(errs, errors.New("--admin-tls-cert and --admin-tls-key belong together: give both"))
	}
	return errors.Join(append(errs, c.validateAdminTokens())...)
}

// validateAdminTokens does not show the tokens themselves.
func (c Config) validateAdminTokens() error {
	switch {
	case strings.ContainsFunc(string(c.AdminToken), unicode.IsSpace):
		return errors.New("--admin-token-file has white space within the token: give a token without any")
	case strings.ContainsFunc(string(c.AdminWriteToken), unicode.IsSpace):
		return errors.New("--admin-write-token-file has white space within the token: give a token without any")
	case c.AdminWriteToken != "" && c.AdminToken == "":
		return errors.New("--admin-write-token-file needs --admin-token-file: give it as well")
	case c.AdminWriteToken != "" && c.AdminToken == c.AdminWriteToken:
		return errors.New("--admin-write-token-file has the token of --admin-token-file: give another one")
	}
	return nil
}

// readAdminTokens puts the contents of the token files in AdminToken and AdminWriteToken.
func (c *Config) readAdminTokens() error {
	return errors.Join(
		readToken("--admin-token-file", c.AdminTokenFile, &c.AdminToken),
		readToken("--admin-write-token-file", c.AdminWriteTokenFile, &c.AdminWriteToken),
	)
}

func readToken(flag, path string, into *Secret) error {
	if path == "" {
		return nil
	}
	token, err := readLine(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if strings.TrimSpace(token) == "" {
		return fmt.Errorf("%s %q is empty: put the token in it", flag, path)
	}
	*into = Secret(token)
	return nil
}
