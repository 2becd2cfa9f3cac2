package config

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"leash/internal/limits"
)

// limitOptions limit what one user, one address or a stranger may take.
func limitOptions(c *Config) []option {
	return []option{
		{name: "limit-user", value: userLimits(c),
			summary: "Most that each user may have at once, such as clients=100,commands=5000.",
			details: []string{
				"The kinds are `clients`, `blocked`, `waiters`, `holds`, `subscriptions`, `commands` a second, and " +
					"bytes of `output` as in output=64MiB. " +
					"[Access](access.md#limits) says what each of them counts. A kind that is not given has no limit.",
				"Clients that send no `AUTH` are one user together, the user `default`. " +
					"Every Leash counts for itself.",
			},
			defaultIs: "none",
			limits:    "each from 1 to 1000000000, output from 1MiB"},
		{name: "limit-address-clients", value: count("n", &c.LimitAddressClients),
			summary: "How many connections one IP address may have; 0 is no limit.",
			details: []string{"With `--proxy-protocol`, it is the address in the header."},
			limits:  "0 to 1000000"},
		{name: "limit-accepts", value: count("n", &c.LimitAccepts),
			summary: "How many new connections a second Leash accepts; 0 is no limit.",
			details: []string{"Further ones wait in the queue of the system, so none is refused until that is full."},
			limits:  "0 to 1000000"},
		{name: "limit-hold", value: list("pattern=duration,...", &c.LimitHold),
			summary: "How long locks may be held whose names match a pattern, as in order:*=30s.",
			details: []string{
				"This is `--max-hold` for some names. The shortest time counts, also of several locks of one command. " +
					"The pattern is one of `KEYS`. Permits of semaphores have no such limit.",
			},
			defaultIs: "none",
			limits:    "100ms or more each"},
		{name: "limit-name-holds", value: list("pattern=n,...", &c.LimitNameHolds),
			summary: "How many locks may be held at once whose names match a pattern, as in order:*=100.",
			details: []string{
				"One more gets the error `LOCKLIMIT`. The pattern is one of `KEYS`. Permits count by the name of their " +
					"semaphore. Every Leash counts for itself.",
			},
			defaultIs: "none",
			limits:    "each from 1 to 1000000000"},
		{name: "limit-login", value: duration("duration", &c.LimitLogin),
			summary: "How long a client may take to authenticate if it must; 0 is no limit.",
			details: []string{"Then Leash closes it. Before, its commands may have 10 arguments of 16 KiB, as in Redis."},
			limits:  "0, or 1s to 24h"},
		{name: "limit-idle", value: duration("duration", &c.LimitIdle),
			summary: "How long a client may be idle before Leash closes it; 0 is no limit.",
			details: []string{
				"This is `timeout` of Redis. Clients that block, wait, subscribe or hold a lock are never idle.",
			},
			limits: "0, or 1s to 8760h"},
	}
}

// userLimits is the value of --limit-user. A second value is added to the first.
func userLimits(c *Config) value {
	texts := list("kind=n,...", &c.LimitUser)
	set := texts.set
	texts.set = func(s string) error {
		old := slices.Clone(c.LimitUser)
		if err := set(s); err != nil {
			return err
		}
		_, err := limits.Parse(c.LimitUser, parseSize)
		if err != nil {
			c.LimitUser = old
		}
		return err
	}
	return texts
}

// UserLimits are the limits of --limit-user.
func (c Config) UserLimits() limits.Limits {
	l, _ := limits.Parse(c.LimitUser, parseSize) // checked by Validate
	return l
}

// HoldLimits are the limits of --limit-hold.
func (c Config) HoldLimits() []limits.Hold {
	all, _ := limits.ParseHolds(c.LimitHold) // checked by Validate
	return all
}

func (c Config) validateLimits() error {
	var errs []error
	if _, err := limits.Parse(c.LimitUser, parseSize); err != nil {
		errs = append(errs, errors.New("--limit-user "+err.Error()))
	}
	if _, err := limits.ParseHolds(c.LimitHold); err != nil {
		errs = append(errs, errors.New("--limit-hold "+err.Error()))
	}
	if _, err := limits.ParseNameHolds(c.LimitNameHolds, nil); err != nil {
		errs = append(errs, errors.New("--limit-name-holds "+err.Error()))
	}
	errs = append(errs,
		within("limit-address-clients", c.LimitAddressClients, 0, 1000000, strconv.Itoa),
		within("limit-accepts", c.LimitAccepts, 0, 1000000, strconv.Itoa))
	if c.LimitLogin != 0 {
		errs = append(errs, within("limit-login", c.LimitLogin, time.Second, 24*time.Hour, formatDuration))
	}
	if c.LimitIdle != 0 {
		errs = append(errs, within("limit-idle", c.LimitIdle, time.Second, 365*24*time.Hour, formatDuration))
	}
	return errors.Join(errs...)
}
