package redistest

import (
	"fmt"
	"io"
	"net"
)

// claimName claims port n among the processes that use this package. It listens on an abstract Unix
// socket, which leaves no file behind and ends with its process.
func claimName(n int) (io.Closer, error) {
	return net.Listen("unix", fmt.Sprintf("@leash-redistest-%d", n))
}
