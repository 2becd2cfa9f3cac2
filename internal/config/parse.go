package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Info is the error of [Parse] for --help, --help-all and --version. The settings are not wrong,
// but Leash does not run. The caller writes Text to standard output and exits with 0.
type Info struct {
	Text string // ends in a line feed
}

// Error implements error.
func (i *Info) Error() string {
	return strings.TrimSuffix(i.Text, "\n")
}

// UsageError says which settings are wrong and what is allowed, one on each line. The caller writes
// it to standard error and exits with 2. It never contains a password.
type UsageError struct {
	err error
}

// Error implements error.
func (e *UsageError) Error() string {
	return e.err.Error()
}

// Unwrap returns the error of each wrong setting, joined.
func (e *UsageError) Unwrap() error {
	return e.err
}

// Parse reads the settings from the arguments, without the program's name, from the environment, a
// list of NAME=value, and from the file of --config. It reads the password file, if there is one.
// The result has passed Validate. The error is always an *[Info] or a *[UsageError].
func Parse(args, environ []string) (Config, error) {
	c := Default()
	gs := groups(&c)
	var ask requests
	fs := flagSet(gs, &ask)

	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return Config{}, &Info{Text: helpText(false)}
	case err != nil:
		return Config{}, &UsageError{flagError(fs, err)}
	case ask.helpAll:
		return Config{}, &Info{Text: helpText(true)}
	case ask.version:
		return Config{}, &Info{Text: "leash " + Version() + "\n"}
	case fs.NArg() > 0:
		// The argument is not shown, because it may be the second half of a password.
		return Config{}, &UsageError{errors.New("an argument is not a flag: write --flag value, and quote values with spaces")}
	}
	given := make(map[string]bool)
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := c.complete(gs, given, environ); err != nil {
		return Config{}, &UsageError{err}
	}
	c.CheckOnly = ask.check
	return c, nil
}

// complete adds to the flags what the environment and the files say, and checks the whole. given
// has the names of the flags that are set.
func (c *Config) complete(gs []group, given map[string]bool, environ []string) error {
	if err := errors.Join(setFromEnv(gs, given, environ)...); err != nil {
		return err
	}
	if c.File == "" {
		return c.check()
	}
	f, err := readSettingsFile(c.File)
	if err != nil {
		return err
	}
	if err := f.apply(gs, given); err != nil {
		return err
	}
	c.FileIsPublic = f.public && f.hasSecret(gs)
	return f.locate(c.check())
}

// check reads the files of passwords and tokens, and validates the whole.
func (c *Config) check() error {
	if err := errors.Join(c.readURLs(), c.readPassword(), c.readSentinelPassword(), c.readAdminTokens()); err != nil {
		return err
	}
	return c.Validate()
}

// flagError is pflag's error in the words of this package. pflag's own text repeats the argument as
// it was given. `-upstream-password=secret`, with one dash, is an easy mistake and would show the
// password.
func flagError(fs *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return errors.New("a flag begins with one dash: write two dashes, as in --listen")
	case errors.As(err, &unknown):
		return fmt.Errorf("--%s is not a flag%s", unknown.GetSpecifiedName(), suggest("--"+unknown.GetSpecifiedName(), flagNames(fs)))
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value", missing.GetSpecifiedName())
	case errors.As(err, &invalid) && (invalid.GetValue() == "" || isHidden(invalid.GetFlag()) || mayBeURL(invalid.GetValue())):
		return fmt.Errorf("--%s %w", invalid.GetFlag().Name, invalid.Unwrap())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %q %w", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	}
	return errors.New("an argument is not a flag: write --flag value or --flag=value")
}

func flagNames(fs *pflag.FlagSet) (names []string) {
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

// isHidden reports whether a flag's value must not be shown.
func isHidden(f *pflag.Flag) bool {
	s, ok := f.Value.(*single)
	return ok && s.hidden
}

// maxPassword is how many bytes of a password file are read at most.
const maxPassword = 64 * kib

// readPassword puts the password file's content in UpstreamPassword.
func (c *Config) readPassword() error {
	if len(c.UpstreamPasswordCommand) > 0 {
		return c.checkPasswordCommand()
	}
	if c.UpstreamPasswordFile == "" {
		return nil
	}
	if c.UpstreamPassword != "" {
		return errors.New("--upstream-password and --upstream-password-file are both set: give one of them")
	}
	password, err := c.PasswordSource().First()
	if err != nil {
		return err
	}
	c.UpstreamPassword = Secret(password)
	return nil
}

// readSentinelPassword puts the file's content in SentinelPassword.
func (c *Config) readSentinelPassword() error {
	if c.SentinelPasswordFile == "" {
		return nil
	}
	if c.SentinelPassword != "" {
		return errors.New("--sentinel-password and --sentinel-password-file are both set: give one of them")
	}
	password, err := c.SentinelPasswordSource().First()
	if err != nil {
		return err
	}
	c.SentinelPassword = Secret(password)
	return nil
}

// readLine returns the content of the file, without the final line end that editors add.
func readLine(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxPassword {
		return "", fmt.Errorf("%q is larger than %s: it can't be a password", path, formatSize(maxPassword))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
