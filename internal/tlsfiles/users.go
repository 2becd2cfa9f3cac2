package tlsfiles

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

// Users finds the ACL user of a client by its certificate. It has the users' passwords, from a file
// that it reads again when the file changes. It is safe for concurrent use.
//
// Each line of the file is a user and its password, with a space between them. The password is all
// that follows the space. Empty lines and lines that begin with # mean nothing.
type Users struct {
	path    string
	names   func(tls.ConnectionState) []string
	log     *slog.Logger
	current atomic.Pointer[passwords]
	refused string // Reread has refused this text last
}

// passwords is what Users has made of its file.
type passwords struct {
	byUser map[string]string
	raw    string
}

// NewUsers reads the file of users' passwords. from says which name of a certificate is the user's:
// see Names. An error has the number of a line, but nothing of its text.
func NewUsers(path, from string, log *slog.Logger) (*Users, error) {
	u := &Users{path: path, names: func(s tls.ConnectionState) []string { return Names(s, from) }, log: log}
	raw, err := u.read()
	if err != nil {
		return nil, err
	}
	byUser, err := u.parse(raw)
	if err != nil {
		return nil, err
	}
	u.current.Store(&passwords{byUser, raw})
	return u, nil
}

// Of returns the user of a client with TLS, and the user's password. ok is false if the client has
// shown no certificate, or the file has none of its names.
func (u *Users) Of(state tls.ConnectionState) (user, password string, ok bool) {
	known := u.current.Load().byUser
	for _, name := range u.names(state) {
		if password, ok = known[name]; ok {
			return name, password, true
		}
	}
	return "", "", false
}

// Run reads the file again, every few seconds and when wake gets a value, until ctx is done.
func (u *Users) Run(ctx context.Context, wake <-chan os.Signal) { follow(ctx, wake, u.Reread) }

// Reread takes the users of the file if it has changed. Only one goroutine may call it at a time.
// If the file cannot be used, the users stay as they are.
func (u *Users) Reread() {
	raw, err := u.read()
	if err == nil && raw == u.current.Load().raw {
		u.refused = ""
		return
	}
	var byUser map[string]string
	if err == nil {
		byUser, err = u.parse(raw)
	}
	switch {
	case err == nil:
		u.current.Store(&passwords{byUser, raw})
		u.refused = ""
		u.log.Info("read new users of certificates", "file", u.path, "users", len(byUser))
	case raw != u.refused:
		u.refused = raw
		u.log.Error("changed users of certificates cannot be used, keeping the old ones", "err", err)
	}
}

// read returns the text of the file. With an error, it tells one failure from another.
func (u *Users) read() (string, error) {
	b, err := os.ReadFile(u.path)
	if err != nil {
		return unreadable, fmt.Errorf("--tls-users-file: %w", err)
	}
	return string(b), nil
}

func (u *Users) parse(raw string) (map[string]string, error) {
	byUser := make(map[string]string)
	lines := bufio.NewScanner(strings.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		user, password, _ := strings.Cut(line, " ")
		_, twice := byUser[user]
		switch {
		case user == "" || password == "" || strings.ContainsAny(user, "\t\v\f\x00"):
			return nil, fmt.Errorf("--tls-users-file %s: line %d is not a user, a space and a password", u.path, n)
		case twice:
			return nil, fmt.Errorf("--tls-users-file %s: line %d names a user again: name each user once", u.path, n)
		}
		byUser[user] = password
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--tls-users-file %s: %w", u.path, err)
	}
	if len(byUser) == 0 {
		return nil, errors.New("--tls-users-file " + u.path + " names no user: give a user and a password in each line")
	}
	return byUser, nil
}
