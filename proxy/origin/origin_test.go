package origin

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// binaryHeader returns a header of version 2: everything behind the signature except rest, whose
// length it holds.
func binaryHeader(command, family byte, rest string) string {
	return signature + string([]byte{command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

const (
	ends4 = "\x0a\x00\x00\x07\x0a\x00\x00\x01\xd4\x31\x18\xec"
	ends6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xd4\x31\x18\xec"
)

var valid = []struct{ header, client, server string }{
	{"PROXY TCP4 10.0.0.7 10.0.0.1 54321 6380\r\n", "10.0.0.7:54321", "10.0.0.1:6380"},
	{"PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n", "255.255.255.255:65535", "0.0.0.0:0"},
	{"PROXY TCP6 2001:db8::7 2001:db8::1 54321 6380\r\n", "[2001:db8::7]:54321", "[2001:db8::1]:6380"},
	{"PROXY TCP6 ::ffff:10.0.0.7 ::1 1 2\r\n", "10.0.0.7:1", "[::1]:2"},
	{"PROXY UNKNOWN\r\n", "", ""},
	{"PROXY UNKNOWN ffff::f ffff::1 65535 65535\r\n", "", ""},
	{"PROXY UNKNOWN " + strings.Repeat("x", maxTextLine-16) + "\r\n", "", ""},
	{binaryHeader(0x21, familyTCP4, ends4), "10.0.0.7:54321", "10.0.0.1:6380"},
	{binaryHeader(0x21, familyTCP4, ends4+"\x04\x00\x03abc"), "10.0.0.7:54321", "10.0.0.1:6380"},
	{binaryHeader(0x21, familyTCP4, ends4+strings.Repeat("x", maxRest-len(ends4))), "10.0.0.7:54321", "10.0.0.1:6380"},
	{binaryHeader(0x21, familyTCP6, ends6), "[2001:db8::7]:54321", "[2001:db8::1]:6380"},
	{binaryHeader(0x21, familyUnix, "/run/app"+strings.Repeat("\x00", 208)), "", ""},
	{binaryHeader(0x21, familyUnknown, ""), "", ""},
	{binaryHeader(0x21, familyUnknown, "whatever"), "", ""},
	{binaryHeader(0x20, familyUnknown, ""), "", ""},
	{binaryHeader(0x20, familyTCP4, ends4), "", ""},
	{binaryHeader(0x20, 0xff, "x"), "", ""},
}

// TestRead also checks that no byte behind the header is read.
func TestRead(t *testing.T) {
	for _, row := range valid {
		r := strings.NewReader(row.header + "PING")
		got, err := Read(r)
		if err != nil || text(got.Client) != row.client || text(got.Server) != row.server {
			t.Errorf("%q: got %v %v, want %q %q", row.header, got, err, row.client, row.server)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "PING" {
			t.Errorf("%q: %q is left", row.header, rest)
		}
	}
}

func text(a interface{ String() string }) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func TestReadRefuses(t *testing.T) {
	for _, header := range []string{
		"PING\r\n",
		"*1\r\n$4\r\nPING\r\n",
		"PROXY\r\n",
		"proxy TCP4 10.0.0.7 10.0.0.1 1 2\r\n",
		"PROXY  TCP4 10.0.0.7 10.0.0.1 1 2\r\n",
		"PROXY TCP4  10.0.0.7 10.0.0.1 1 2\r\n",
		"PROXY TCP4 10.0.0.7 10.0.0.1 1 2 \r\n",
		"PROXY TCP4 10.0.0.7 10.0.0.1 1 2\n" + strings.Repeat("x", 200),
		"PROXY TCP4 10.0.0.7 10.0.0.1 1 2\r" + strings.Repeat("x", 200),
		"PROXY TCP4 10.0.0.7 10.0.0.1 01 2\r\n",
		"PROXY TCP4 10.0.0.7 10.0.0.1 +1 2\r\n",
		"PROXY TCP4 10.0.0.7 10.0.0.1 -1 2\r\n",
		"PROXY TCP4 10.0.0.7 10.0.0.1 65536 2\r\n",
		"PROXY TCP4 10.0.0.7 10.0.0.1 2\r\n",
		"PROXY TCP4 10.0.0.07 10.0.0.1 1 2\r\n",
		"PROXY TCP4 10.0.7 10.0.0.1 1 2\r\n",
		"PROXY TCP4 ::1 ::1 1 2\r\n",
		"PROXY TCP6 10.0.0.7 10.0.0.1 1 2\r\n",
		"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
		"PROXY UDP4 10.0.0.7 10.0.0.1 1 2\r\n",
		"PROXY UNKNOWNS\r\n",
		"PROXY UNKNOWN " + strings.Repeat("x", maxTextLine-15) + "\r\n",
		strings.Replace(binaryHeader(0x21, familyTCP4, ends4), "Q", "q", 1),
		binaryHeader(0x11, familyTCP4, ends4),
		binaryHeader(0x22, familyTCP4, ends4),
		binaryHeader(0x21, 0x12, ends4),
		binaryHeader(0x21, 0x41, ends4),
		binaryHeader(0x21, familyTCP4, ends4[1:]),
		binaryHeader(0x21, familyTCP6, ends6[1:]),
		binaryHeader(0x21, familyUnknown, strings.Repeat("x", maxRest+1)),
		binaryHeader(0x20, familyUnknown, strings.Repeat("x", maxRest+1)),
	} {
		if got, err := Read(strings.NewReader(header)); !errors.Is(err, ErrHeader) || got != (Origin{}) {
			t.Errorf("%q: got %v %v", header, got, err)
		}
	}
}

// TestReadAtEndOfStream checks that io.EOF is returned only if nothing was read.
func TestReadAtEndOfStream(t *testing.T) {
	for _, row := range valid {
		for cut := range len(row.header) {
			want := io.ErrUnexpectedEOF
			if cut == 0 {
				want = io.EOF
			}
			if got, err := Read(strings.NewReader(row.header[:cut])); err != want || got != (Origin{}) {
				t.Errorf("%q: got %v %v, want %v", row.header[:cut], got, err, want)
			}
		}
		broken := errors.New("broken")
		if _, err := Read(io.MultiReader(strings.NewReader(row.header[:len(row.header)-1]),
			iotest.ErrReader(broken))); err != broken {
			t.Errorf("%q: got %v, want the reader's own error", row.header, err)
		}
	}
}

// FuzzRead checks that nothing panics and that a header in pieces is read like one in a single
// piece. At most the length of the longest header is read, and nothing behind the end of a text
// line.
func FuzzRead(f *testing.F) {
	for _, row := range valid {
		f.Add([]byte(row.header + "PING"))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		want, wantErr := Read(r)
		got, err := Read(iotest.OneByteReader(bytes.NewReader(stream)))
		if text(got.Client) != text(want.Client) || text(got.Server) != text(want.Server) || !same(err, wantErr) {
			t.Errorf("byte by byte: got %v %v, want %v %v", got, err, want, wantErr)
		}
		taken := stream[:len(stream)-r.Len()]
		if len(taken) > len(signature)+4+maxRest {
			t.Errorf("%d bytes were taken", len(taken))
		}
		if (want.Client == nil) != (want.Server == nil) || wantErr != nil && want.Client != nil {
			t.Errorf("half an origin: %v %v", want, wantErr)
		}
		if wantErr == nil && bytes.HasPrefix(taken, []byte(textPrefix)) &&
			(len(taken) > maxTextLine || !bytes.HasSuffix(taken, []byte("\r\n"))) {
			t.Errorf("the line %q was taken", taken)
		}
	})
}

func same(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}
