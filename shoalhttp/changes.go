package shoalhttp

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A message is an event of a stream. It is made when it is sent first, and then for all viewers:
// plain, and packed for those that take gzip.
type message struct{ plain, packed func() []byte }

func newMessage(data func() []byte) message {
	plain := sync.OnceValue(func() []byte { return slices.Concat([]byte("data: "), data(), []byte("\n\n")) })
	return message{plain, sync.OnceValue(func() []byte { return pack(plain()) })}
}

var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is known
	}
	return w
}}

// pack compresses data into blocks that refer to nothing before them. So they may follow any
// others, and all viewers can be sent the same.
func pack(data []byte) []byte {
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	w.Write(data) // to memory: there is no error
	w.Flush()
	return b.Bytes()
}

// The gzip format (RFC 1952) is a header, the blocks, an empty last block, and the checksum and
// length of the data.
const (
	gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	lastBlock  = "\x01\x00\x00\xff\xff"
)

// A gzipped is a stream of packed messages.
type gzipped struct {
	w        io.Writer
	begun    bool
	checksum uint32
	length   uint32
}

func (z *gzipped) send(m message) error {
	z.checksum = crc32.Update(z.checksum, crc32.IEEETable, m.plain())
	z.length += uint32(len(m.plain()))
	data := m.packed()
	if !z.begun {
		z.begun = true
		data = slices.Concat([]byte(gzipHeader), data)
	}
	_, err := z.w.Write(data)
	return err
}

func (z *gzipped) end() {
	end := binary.LittleEndian.AppendUint32([]byte(lastBlock), z.checksum)
	z.w.Write(binary.LittleEndian.AppendUint32(end, z.length)) // an error is that the client is gone
}

// takesGzip reports whether a request has this Accept-Encoding.
func takesGzip(accept string) bool {
	for coding := range strings.SplitSeq(accept, ",") {
		name, weight, weighed := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		if !weighed {
			return true
		}
		key, value, _ := strings.Cut(weight, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return strings.EqualFold(strings.TrimSpace(key), "q") && err == nil && q > 0
	}
	return false
}

// A partial snapshot is what has changed since the one before.
type partial struct {
	*Snapshot
	Partial bool              `json:"partial"`
	Pools   []json.RawMessage `json:"pools"`
}

// changes is what of is differs from was, or all of it if there are other pools, or the same ones
// in another order.
func changes(was, is *Snapshot) []byte {
	p := partial{Snapshot: is, Partial: true, Pools: []json.RawMessage{}}
	if !slices.EqualFunc(was.Pools, is.Pools, func(a, b PoolRow) bool { return a.ID == b.ID && a.Name == b.Name }) {
		return marshal(is)
	}
	for i := range is.Pools {
		if row := rowChanges(&was.Pools[i], &is.Pools[i]); row != nil {
			p.Pools = append(p.Pools, row)
		}
	}
	return marshal(p)
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings can be marshaled
	}
	return data
}

// rowChanges is the ID of a row and the fields that differ, with four digits, or nil.
func rowChanges(was, is *PoolRow) json.RawMessage {
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	var out []byte
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		if x.Comparable() && x.Equal(y) || !x.Comparable() && reflect.DeepEqual(x.Interface(), y.Interface()) {
			continue
		}
		if out == nil {
			out = strconv.AppendInt([]byte(`{"id":`), int64(is.ID), 10)
		}
		out = append(appendKey(append(out, ','), a.Type().Field(i)), ':')
		out = appendValue(out, y)
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}

func appendKey(out []byte, f reflect.StructField) []byte {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strconv.AppendQuote(out, name)
}

func appendValue(out []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Float64:
		return strconv.AppendFloat(out, v.Float(), 'g', 4, 64)
	case reflect.Int:
		return strconv.AppendInt(out, v.Int(), 10)
	case reflect.Uint64:
		return strconv.AppendUint(out, v.Uint(), 10)
	case reflect.Struct:
		for i := range v.NumField() {
			out = append(out, "{,"[min(i, 1)])
			out = append(appendKey(out, v.Type().Field(i)), ':')
			out = appendValue(out, v.Field(i))
		}
		return append(out, '}')
	}
	return append(out, marshal(v.Interface())...)
}
