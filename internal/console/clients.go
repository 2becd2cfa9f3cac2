package console

import "leash/proxy/clients"

// client is a client in JSON. Times are in milliseconds.
type client struct {
	ID      int64  `json:"id"`
	Addr    string `json:"addr"`
	Name    string `json:"name"`
	User    string `json:"user"`
	Library string `json:"library"`
	Command string `json:"command"`
	Flags   string `json:"flags"`
	DB      int    `json:"db"`
	Age     int64  `json:"age_ms"`
	Idle    int64  `json:"idle_ms"`
	Holds   int    `json:"holds"`
	Input   int    `json:"input_bytes"`
	Output  int    `json:"output_bytes"`
}

// showClients lists clients of this Leash, the oldest first.
func (c *Console) showClients(q question) (any, error) {
	search, first, err := q.page()
	if err != nil {
		return nil, err
	}
	found, all := q.Server.FindClients(func(d *clients.Description) bool { return d.Contains(search) }, first, pageSize)
	page := make([]client, 0, len(all))
	for _, d := range all {
		page = append(page, client{
			ID: d.ID, Addr: shown(d.Addr), Name: shown(d.Name), User: shown(d.User), Library: shown(d.Library()),
			Command: d.Command, Flags: d.Flags(), DB: d.DB, Age: d.Age.Milliseconds(), Idle: d.Idle.Milliseconds(),
			Holds: d.Holds, Input: d.Requests, Output: d.Output,
		})
	}
	return map[string]any{"found": found, "page_size": pageSize, "clients": page}, nil
}
