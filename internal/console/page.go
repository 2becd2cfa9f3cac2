package console

import (
	"embed"
	"net/http"
	"path"
)

// page has the files of the page. They are served as they are.
//
//go:embed page
var page embed.FS

// policy lets the page use its own files and its own API only, and lets no text become HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// types are the kinds of the files by their extensions.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
}

// Page answers the path / and those under /console/. It has no data of Leash.
func (c *Console) Page() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { serveFile(w, "index.html") })
	mux.HandleFunc("GET /console/{file}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r.PathValue("file")) })
	return mux
}

func serveFile(w http.ResponseWriter, name string) {
	content, err := page.ReadFile("page/" + name)
	if err != nil {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", types[path.Ext(name)])
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // another version of Leash may have other files
	_, _ = w.Write(content)
}
