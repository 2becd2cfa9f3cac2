package script

// Shape describes the replies of a script: lists of integers and texts. A single integer counts as
// a list of one. In kinds, 'i' is an integer and 's' a text. A reply may have more items.
type shape struct {
	kinds string           // the first items of every reply
	code  map[int64]string // by the first integer: the items after it
	// replies are lists of any length; kinds are the allowed items
	List bool
}

// Shapes are the shapes by script, see the head of each script. All other scripts answer an integer
// first.
var Shapes = map[string]shape{
	"acquire":        acquireShape,
	"rw_acquire":     acquireShape,
	"permit_acquire": {kinds: "i", code: map[int64]string{0: "i", 1: "i", 2: "sss", 6: "s"}},
	"move":           moveShape,
	"rw_move":        moveShape,
	"permit_move":    moveShape,
	"permit_revoke":  {kinds: "i", code: map[int64]string{-2: "ssi"}},
	"take":           {kinds: "i", code: map[int64]string{1: "i"}},
	"semaphore_info": {kinds: "ii"},
	"inspect":        {kinds: "iiii"},
	"rw_inspect":     {kinds: "iii"},
	"renew":          {kinds: "i", List: true},
	"rw_renew":       {kinds: "i", List: true},
	"permit_renew":   {kinds: "i", List: true},
	"restore":        {kinds: "is", List: true},
	"rw_restore":     {kinds: "is", List: true},
	"permit_restore": {kinds: "is", List: true},
	"probe":          {kinds: "is", List: true}, // the caller checks the length
}

var (
	acquireShape = shape{kinds: "i", code: map[int64]string{0: "i", 1: "ii", 2: "sss", 6: "s"}}
	moveShape    = shape{kinds: "i", code: map[int64]string{1: "iiiis"}}
)

// ShapeOf is the shape of the script with that name.
func ShapeOf(name string) shape {
	if sh, ok := Shapes[name]; ok {
		return sh
	}
	return shape{kinds: "i"}
}

// Fits reports whether reply, from decode, integers or go-redis, has this shape.
func (sh shape) Fits(reply any) bool {
	switch reply := reply.(type) {
	case []int64:
		return fits(sh, reply, func(int64) byte { return 'i' }, func(n int64) int64 { return n })
	case []any:
		return fits(sh, reply, kindOf, func(item any) int64 { n, _ := item.(int64); return n })
	case int64:
		return !sh.List && fits(sh, []int64{reply}, func(int64) byte { return 'i' }, func(n int64) int64 { return n })
	}
	return false
}

func fits[T any](sh shape, items []T, kind func(T) byte, number func(T) int64) bool {
	if sh.List {
		for _, item := range items {
			if k := kind(item); k != sh.kinds[0] && k != sh.kinds[len(sh.kinds)-1] {
				return false
			}
		}
		return true
	}
	if !begins(sh.kinds, items, kind) {
		return false
	}
	if sh.code == nil {
		return true
	}
	return begins(sh.code[number(items[0])], items[1:], kind)
}

// begins reports whether the first items are of those kinds.
func begins[T any](kinds string, items []T, kind func(T) byte) bool {
	if len(items) < len(kinds) {
		return false
	}
	for i := range len(kinds) {
		if kind(items[i]) != kinds[i] {
			return false
		}
	}
	return true
}

func kindOf(item any) byte {
	switch item.(type) {
	case int64:
		return 'i'
	case string:
		return 's'
	}
	return '?'
}
