package lockcmd

import "errors"

// errShape says that a script's reply is none that the script gives. Redis, or what answers in its
// place, may have run the script or not.
var errShape = errors.New("lockcmd: a reply of another shape than the script's")

// shape is what the replies of a script look like: lists of integers and texts. A sole integer
// counts as a list of one. In kinds, 'i' stands for an integer and 's' for a text; a reply may have
// more items.
type shape struct {
	kinds string           // how every reply begins
	code  map[int64]string // what follows a first integer, where more must
	// the replies are lists of any length, and kinds says what each item may be
	list bool
}

// shapes are those of the scripts by name, as the head of each file has them. Every other script
// answers an integer first.
var shapes = map[string]shape{
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
	"renew":          {kinds: "i", list: true},
	"rw_renew":       {kinds: "i", list: true},
	"permit_renew":   {kinds: "i", list: true},
	"restore":        {kinds: "is", list: true},
	"rw_restore":     {kinds: "is", list: true},
	"permit_restore": {kinds: "is", list: true},
	"probe":          {kinds: "is", list: true}, // its caller counts the items
}

var (
	acquireShape = shape{kinds: "i", code: map[int64]string{0: "i", 1: "ii", 2: "sss", 6: "s"}}
	moveShape    = shape{kinds: "i", code: map[int64]string{1: "iiiis"}}
)

// shapeOf is the shape of the script with that name.
func shapeOf(name string) shape {
	if sh, ok := shapes[name]; ok {
		return sh
	}
	return shape{kinds: "i"}
}

// fits reports whether reply is one of this shape, as decode, integers or go-redis give it.
func (sh shape) fits(reply any) bool {
	switch reply := reply.(type) {
	case []int64:
		return fits(sh, reply, func(int64) byte { return 'i' }, func(n int64) int64 { return n })
	case []any:
		return fits(sh, reply, kindOf, func(item any) int64 { n, _ := item.(int64); return n })
	case int64:
		return !sh.list && fits(sh, []int64{reply}, func(int64) byte { return 'i' }, func(n int64) int64 { return n })
	}
	return false
}

func fits[T any](sh shape, items []T, kind func(T) byte, number func(T) int64) bool {
	if sh.list {
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
