package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// refusal is an answer that is no 200.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func badInput(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

var (
	errNotReady = &refusal{http.StatusServiceUnavailable, "Leash is not connected to Redis yet"}
	errTooMany  = &refusal{http.StatusServiceUnavailable, "too many requests at once: try again soon"}
)

// question is a request of which the parameters are known.
type question struct {
	*http.Request
	url.Values
	*Backend
}

// answer makes a handler that writes what show returns as JSON. It lets only those parameters pass.
func (c *Console) answer(show func(question) (any, error), allowed ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case c.requests <- struct{}{}:
			defer func() { <-c.requests }()
		default:
			refuse(w, errTooMany)
			return
		}
		q, err := c.question(r, allowed)
		if err != nil {
			refuse(w, err)
			return
		}
		shown, err := show(q)
		if err != nil {
			refuse(w, err)
			return
		}
		writeJSON(w, shown)
	}
}

func (c *Console) question(r *http.Request, allowed []string) (question, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return question{}, badInput("the query is not valid: %v", err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(allowed, name):
			return question{}, badInput("unknown parameter %q", name)
		case len(list) > 1 && name != "token":
			return question{}, badInput("%s is there twice", name)
		}
	}
	q := question{r, values, c.cfg.Backend()}
	if q.Backend == nil {
		return q, errNotReady
	}
	return q, nil
}

// number is an integer parameter, fallback without it.
func (q question) number(name string, fallback, low, high int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, badInput("%s is a number from %d to %d, not %q", name, low, high, shown(text))
	}
	return n, nil
}

// Limits of parameters.
const (
	pageSize  = 50
	maxPage   = 1_000_000
	maxSearch = 1024 // bytes
	maxKey    = 4096 // bytes; in the address they may be three times as long
)

// page returns the text to search for and the position of the first entry of the page.
func (q question) page() (search string, first int, err error) {
	page, err := q.number("page", 1, 1, maxPage)
	if err != nil {
		return "", 0, err
	}
	search = q.Get("search")
	if len(search) > maxSearch {
		return "", 0, badInput("search has more than %d bytes", maxSearch)
	}
	return search, (page - 1) * pageSize, nil
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var r *refusal
	if errors.As(err, &r) {
		status = r.status
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, err.Error()+"\n")
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(value)
}
