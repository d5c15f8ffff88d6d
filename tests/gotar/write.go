package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand"
	"sort"
	"strings"
	"time"
)

// Pieces of names: what needs PAX or GNU in one way or another, and what only looks odd.
var pieces = []string{"a", "b", "name", " ", "*", "\\", "-", "ä", "日本", "\xff\xfe", "\n", ".", "=", "\"", "wh."}

// Times: out of the range of octal, before 1970, with fractions.
var times = []time.Time{
	{},
	time.Unix(0, 0),
	time.Unix(1700000000, 0),
	time.Unix(1700000000, 123456789),
	time.Unix(-1, 0),
	time.Unix(-62135596800, 500000000),
	time.Unix(1<<33, 0),
	time.Unix(1<<40, 0),
}

var ids = []int{0, 0, 1000, 205001, 1<<21 - 1, 1 << 21, 1 << 31, -1}

type writer struct {
	random *rand.Rand
	// Names that hold a file or a link. Directories have names of their own: a tree that is made of the
	// archive has no conflicts.
	leaves map[string]bool
}

// An archive of random entries, and what it is meant to hold.
func write(seed int64) ([]byte, []line) {
	w := writer{rand.New(rand.NewSource(seed)), map[string]bool{}}
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	var lines []line
	for n := w.random.Intn(12); n > 0; n-- {
		header, content := w.entry()
		// One that its format has no place for is left out.
		if out.WriteHeader(header) != nil {
			continue
		}
		if _, err := out.Write(content); err != nil {
			panic(err)
		}
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeDir:
		case tar.TypeChar, tar.TypeFifo:
			delete(w.leaves, clean(header.Name))
		default:
			w.leaves[clean(header.Name)] = true
		}
		l := describe(header)
		hash := sha256.Sum256(content)
		l.SHA256 = hex.EncodeToString(hash[:])
		lines = append(lines, l)
	}
	if w.random.Intn(4) > 0 {
		if err := out.Close(); err != nil {
			panic(err)
		}
	} else if err := out.Flush(); err != nil { // Without an end.
		panic(err)
	}
	return archive.Bytes(), lines
}

func (w *writer) entry() (*tar.Header, []byte) {
	formats := []tar.Format{tar.FormatUnknown, tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU}
	if w.random.Intn(12) == 0 {
		records := map[string]string{"comment": w.text(40), "mtime": "1.5"}
		return &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "global", PAXRecords: records}, nil
	}
	header := &tar.Header{
		Format:  formats[w.random.Intn(len(formats))],
		Mode:    int64(w.random.Intn(0o10000)),
		Uid:     ids[w.random.Intn(len(ids))],
		Gid:     ids[w.random.Intn(len(ids))],
		ModTime: times[w.random.Intn(len(times))],
	}
	if header.Format == tar.FormatPAX || header.Format == tar.FormatGNU {
		header.AccessTime = times[w.random.Intn(len(times))]
		header.ChangeTime = times[w.random.Intn(len(times))]
	}
	if header.Format == tar.FormatPAX && w.random.Intn(3) == 0 {
		header.PAXRecords = map[string]string{"SCHILY.xattr.user.a": "\n12 size=9\n", "VENDOR.key": w.text(20)}
	}
	var content []byte
	header.Name = w.name("f")
	switch w.random.Intn(9) {
	case 0, 1:
		header.Typeflag = tar.TypeDir
		header.Name = w.name("d") + "/"
		// Too large for octal. No data follows a directory, whatever its size.
		header.Size = []int64{0, 0, 4096, 1 << 33, 1 << 62}[w.random.Intn(5)]
	case 2:
		header.Typeflag = tar.TypeSymlink
		header.Linkname = w.name("t")
	case 3:
		header.Typeflag = []byte{tar.TypeChar, tar.TypeFifo}[w.random.Intn(2)]
		header.Devmajor = int64(w.random.Intn(1 << 24))
	case 4:
		if target, ok := w.leaf(); ok && target != clean(header.Name) {
			header.Typeflag = tar.TypeLink
			header.Linkname = target
			break
		}
		fallthrough
	default:
		header.Typeflag = tar.TypeReg
		content = make([]byte, []int{0, 1, 511, 512, 513, 3000, 70000}[w.random.Intn(7)])
		w.random.Read(content)
		header.Size = int64(len(content))
	}
	return header, content
}

// A leaf that is there, or the same name again and again.
func (w *writer) leaf() (string, bool) {
	var names []string
	for name := range w.leaves {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "", false
	}
	sort.Strings(names) // The order of a map is another each time.
	return names[w.random.Intn(len(names))], true
}

// A path whose last component begins with kind, and the others with "d".
func (w *writer) name(kind string) string {
	if leaf, ok := w.leaf(); ok && kind == "f" && w.random.Intn(5) == 0 {
		return leaf
	}
	path := []string{"", "", "", "./", "/"}[w.random.Intn(5)]
	for n := w.random.Intn(4); n > 0; n-- {
		path += "d" + w.text(120) + "/"
	}
	return path + kind + w.text(200)
}

func (w *writer) text(limit int) string {
	var text strings.Builder
	for n := []int{0, 1, 3, 20, limit}[w.random.Intn(5)]; text.Len() < n; {
		text.WriteString(pieces[w.random.Intn(len(pieces))])
	}
	return text.String()
}

// The name as hard links and duplicates use it.
func clean(name string) string {
	return strings.TrimLeft(strings.TrimPrefix(name, "./"), "/")
}
