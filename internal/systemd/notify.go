package systemd

import (
	"context"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// reportTimeout is how long a report may take. systemd reads reports at once.
const reportTimeout = 100 * time.Millisecond

// Ready tells systemd that the service serves (Type=notify). It blocks for reportTimeout at most.
func Ready(log *slog.Logger) { report(daemon.SdNotifyReady, log) }

// Stopping tells systemd that the service begins to stop. It blocks for reportTimeout at most.
func Stopping(log *slog.Logger) { report(daemon.SdNotifyStopping, log) }

func report(state string, log *slog.Logger) {
	if err := send(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		log.Warn("cannot report to systemd", "state", state, "err", err)
	}
}

// send is daemon.SdNotify with a time limit.
func send(socket, state string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.DialTimeout("unixgram", socket, reportTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(reportTimeout))
	_, err = conn.Write([]byte(state))
	return err
}

// Watchdog tells systemd twice in each WatchdogSec= that the process works, until ctx is done. It
// returns at once if systemd does not want to know.
func Watchdog(ctx context.Context, log *slog.Logger) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			report(daemon.SdNotifyWatchdog, log)
		}
	}
}
