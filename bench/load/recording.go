package load

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"leash/internal/redistest"
)

// A Recording is what Leash sent to Redis to take one lock and to release it, as MONITOR showed it.
// bench can send it again for other keys. So the row "scripts" sends exactly what the current Leash
// sends.
type Recording struct {
	key              string
	token            string
	acquire, release []string // the words of both commands
}

// RecordPair takes and releases key through the Leash at addr. node is the address of the Redis
// that owns the key. recordPair does so twice, because the first time may have to load the scripts.
func RecordPair(addr, node, key string) (*Recording, error) {
	if _, err := AcquireOnce(addr, key); err != nil {
		return nil, err
	}
	monitor, err := redistest.Dial(node)
	if err != nil {
		return nil, err
	}
	defer monitor.Close()
	if reply, err := monitor.Do("MONITOR"); err != nil || reply != "+OK\r\n" {
		return nil, fmt.Errorf("MONITOR: got %q, %w", reply, err)
	}
	token, err := AcquireOnce(addr, key)
	if err != nil {
		return nil, err
	}
	seen, err := commandsAbout(monitor, node, key)
	if err != nil {
		return nil, err
	}
	if len(seen) != 2 || seen[0][0] != "EVALSHA" || seen[1][0] != "EVALSHA" {
		return nil, fmt.Errorf("to take and release a lock Leash sent %q: want two EVALSHA", seen)
	}
	if !slices.Contains(seen[1], token) {
		return nil, fmt.Errorf("the release that Leash sent has no token %s in it: %q", token, seen[1])
	}
	return &Recording{key: key, token: token, acquire: seen[0], release: seen[1]}, nil
}

// AcquireOnce takes and releases key through the Leash at addr and returns the token it got.
func AcquireOnce(addr, key string) (token string, err error) {
	leash, err := redistest.Dial(addr)
	if err != nil {
		return "", err
	}
	defer leash.Close()
	reply, err := leash.Do("LOCK.ACQUIRE", key)
	if err != nil {
		return "", err
	}
	token = strings.TrimSuffix(strings.TrimPrefix(reply, ":"), "\r\n")
	if n, err := strconv.ParseInt(token, 10, 64); err != nil || n < 1 {
		return "", fmt.Errorf("LOCK.ACQUIRE %s: got %q, want a token", key, reply)
	}
	if reply, err = leash.Do("LOCK.RELEASE", key); err != nil || reply != ":1\r\n" {
		return "", fmt.Errorf("LOCK.RELEASE %s: got %q, %w", key, reply, err)
	}
	return token, nil
}

// commandsAbout is the clients' commands about key that monitor has shown until now.
func commandsAbout(monitor *redistest.Client, node, key string) (seen [][]string, err error) {
	const mark = "bench:end-of-recording"
	c, err := redistest.Dial(node)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Do("ECHO", mark); err != nil {
		return nil, err
	}
	for {
		line, err := monitor.Read()
		if err != nil {
			return nil, err
		}
		words, err := monitored(line)
		if err != nil {
			return nil, err
		}
		if len(words) == 2 && words[1] == mark {
			return seen, nil
		}
		if strings.Contains(strings.Join(words, " "), key) {
			seen = append(seen, words)
		}
	}
}

// monitored is the command in a line of MONITOR; nil for one that a script ran.
func monitored(line string) (words []string, err error) {
	head, rest, ok := strings.Cut(strings.TrimSpace(line), "] ")
	if !ok {
		return nil, fmt.Errorf("not a line of MONITOR: %q", line)
	}
	if strings.HasSuffix(head, " lua") {
		return nil, nil
	}
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("a line of MONITOR, %q: %w", line, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("a line of MONITOR, %q: %w", line, err)
		}
		words = append(words, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return words, nil
}

// Pair is the recording for another key. The numbers of its requests stay as recorded. Redis
// compares them only with those of an existing hold, and the lock is free when it is taken.
func (r *Recording) Pair(key string) *pair {
	request := func(words []string) []byte {
		var out []string
		for _, w := range words {
			out = append(out, strings.ReplaceAll(w, r.key, key))
		}
		return command(out...)
	}
	p := &pair{acquire: request(r.acquire), release: request(r.release)}
	at := bytes.Index(p.release, []byte(r.token))
	p.stamp = p.release[at : at+len(r.token) : at+len(r.token)]
	return p
}
