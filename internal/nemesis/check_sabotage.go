package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// checkSabotage runs Leash with scripts or code broken on purpose. It returns an error when the
// check does not find that.
func checkSabotage(ctx context.Context, opt options, log *slog.Logger, out io.Writer) error {
	names := opt.sabotage
	if names[0] == "all" {
		names = sabotageNames()
	}
	for _, name := range names {
		s, err := sabotageNamed(name)
		if err != nil {
			return err
		}
		if err := s.find(ctx, opt, log, out); err != nil {
			return err
		}
	}
	return nil
}

const (
	sabotageLength = 6 * time.Second // of one trial
	sabotageTrials = 30              // two or three are usually enough
)

// find runs trials of the sabotage until the check of one trial finds it.
func (s *sabotage) find(ctx context.Context, opt options, log *slog.Logger, out io.Writer) error {
	opt.length, opt.kinds, opt.faults = cmp.Or(s.length, sabotageLength), s.kinds, s.faults
	b, err := setUp(ctx, opt, s, log)
	if err != nil {
		return err
	}
	defer b.close()
	for try := range sabotageTrials {
		opt.seed++
		verdict := trial(ctx, opt, b, b.awaitExpiry, log, io.Discard)
		if s.catches(verdict) {
			fmt.Fprintf(out, "sabotage %s: caught in trial %d\n", s.name, try+1)
			log.Debug("caught", "by", verdict)
			return nil
		}
		log.Debug("not caught yet", "verdict", verdict)
	}
	return fmt.Errorf("sabotage %s: not caught in %d trials", s.name, sabotageTrials)
}

// catches reports whether a verdict is about this sabotage.
func (s *sabotage) catches(verdict error) bool {
	return verdict != nil && slices.ContainsFunc(s.caught, func(text string) bool { return strings.Contains(verdict.Error(), text) })
}
