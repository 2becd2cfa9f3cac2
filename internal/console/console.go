package console

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"leash/lockcmd/release"
	"leash/lockcmd/view"
	"leash/proxy"
	"leash/proxy/clients"
	"leash/proxy/links"
)

// Server is what the console reads of the clients. *proxy.Server is one.
type Server interface {
	Figures() proxy.Figures
	FindClients(fits func(*clients.Description) bool, first, count int) (found int, shown []*clients.Description)
	Nodes() []links.NodeView
	KillClient(id int64) bool
}

// Locks is what the console reads of the locks. *lockcmd.Service is one.
type Locks interface {
	SearchHolds(view.Search) view.List
	ViewLock(db int, key string, until time.Time) (view.Lock, error)
	Break(db int, key string, confirmed []int64) (release.BreakOutcome, error)
}

// Backend is what the console reads from.
type Backend struct {
	Server Server
	Locks  Locks
}

// Config configures a Console.
type Config struct {
	Version string
	// Backend returns nil before Redis is connected. It does not block.
	Backend func() *Backend
	Ready   func() bool // whether /readyz answers 200
	Log     *slog.Logger
}

// Limits of what runs at once. A request above them gets 503.
const (
	maxStreams  = 16
	maxRequests = 32
)

// Console answers the paths of the API. Make one with New.
type Console struct {
	cfg      Config
	feed     *feed
	requests chan struct{} // one element for each that runs, except readers of events
	search   chan struct{} // size 1: a search of holds runs
	// how long a write to a reader of events may take; tests set it
	sendTimeout time.Duration

	// mu guards the fields below. It is held while figures are read, which does no I/O.
	mu       sync.Mutex
	overview []byte // JSON
	read     time.Time
}

// New makes a Console. It starts nothing.
func New(cfg Config) *Console {
	return &Console{
		cfg: cfg, feed: newFeed(),
		requests: make(chan struct{}, maxRequests), search: make(chan struct{}, 1),
		sendTimeout: sendTimeout,
	}
}

// Close ends all streams of events. No new ones begin.
func (c *Console) Close() { c.feed.close() }

// Observer is to be told of the changes of holds.
func (c *Console) Observer() view.Observer { return c.feed }

// API answers the paths under /api/.
func (c *Console) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/overview", c.answer(c.showOverview))
	mux.HandleFunc("GET /api/holds", c.answer(c.showHolds, "search", "sort", "page"))
	mux.HandleFunc("GET /api/lock", c.answer(c.showLock, "key", "db"))
	mux.HandleFunc("GET /api/clients", c.answer(c.showClients, "search", "page"))
	mux.HandleFunc("GET /api/events", c.stream)
	mux.HandleFunc("POST /api/break", c.answer(c.breakLock, "key", "db", "token"))
	mux.HandleFunc("POST /api/kill", c.answer(c.killClient, "id"))
	return mux
}
