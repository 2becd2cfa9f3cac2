package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// Sizes, in pixels.
const (
	width    = 760
	labels   = 290 // where the bars begin
	longest  = 380 // length of the longest bar
	rowPitch = 26
	barPitch = 18
	heading  = 30
)

// style has colours for light and for dark pages.
const style = `<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .other { fill: #9aa4af }
  .leash { fill: #1a7f64 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .other { fill: #656d76 }
    .leash { fill: #3fb68b }
  }
</style>
`

// svg draws the chart. The bars of Leash have a colour of their own.
func (c chart) svg() []byte {
	var b bytes.Buffer
	height := heading + rowPitch*len(c.bars) + 8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(c.unit))
	b.WriteString(style)
	fmt.Fprintf(&b, `<text x="%d" y="18" font-weight="600">%s</text>`+"\n", labels, html.EscapeString(c.unit))

	most := 0.0
	for _, bar := range c.bars {
		most = max(most, bar.length)
	}
	for i, bar := range c.bars {
		y := heading + i*rowPitch
		length := max(1, int(bar.length/most*longest))
		class := "other"
		if strings.HasPrefix(bar.label, "leash") {
			class = "leash"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labels-8, y+13, html.EscapeString(bar.label))
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n", class, labels, y, length, barPitch)
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", labels+length+6, y+13, html.EscapeString(bar.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
