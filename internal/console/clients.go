package console

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
	found, views := q.Server.SearchClients(search, first, pageSize)
	clients := make([]client, 0, len(views))
	for _, v := range views {
		clients = append(clients, client{
			ID: v.ID, Addr: shown(v.Addr), Name: shown(v.Name), User: shown(v.User), Library: shown(v.Library),
			Command: v.Command, Flags: v.Flags, DB: v.DB, Age: v.Age.Milliseconds(), Idle: v.Idle.Milliseconds(),
			Holds: v.Holds, Input: v.Input, Output: v.Output,
		})
	}
	return map[string]any{"found": found, "page_size": pageSize, "clients": clients}, nil
}
