// Gotar shows how Go's archive/tar, which writes and reads most layers, sees archives. The tests of the
// puller's own reader compare.
//
//	gotar write SEED FILE...   writes an archive of random entries into each file, the seeds counting up
//	gotar list FILE...         reads archives
//
// Both print a line of JSON for each entry, as it is meant or as it is read, and one for each archive's
// end, with an error if there was one.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Content beyond this is not hashed: a damaged sparse file may have holes of 8 EiB.
const maxHashed = 16 << 20

// An entry, or with End the end of an archive. Names are bytes: JSON has them in base64.
type line struct {
	Name   []byte `json:"name"`
	Type   byte   `json:"type"`
	Size   int64  `json:"size"`
	Link   []byte `json:"link"`
	Mode   int64  `json:"mode"`
	SHA256 string `json:"sha256"`
	End    bool   `json:"end"`
	Error  string `json:"error"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gotar:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	out := json.NewEncoder(os.Stdout)
	switch {
	case len(args) > 1 && args[0] == "list":
		for _, file := range args[1:] {
			archive, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := list(bytes.NewReader(archive), out); err != nil {
				return err
			}
		}
		return nil
	case len(args) > 2 && args[0] == "write":
		seed, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		for i, file := range args[2:] {
			archive, lines := write(seed + int64(i))
			if err := os.WriteFile(file, archive, 0o600); err != nil {
				return err
			}
			for _, l := range append(lines, line{End: true}) {
				if err := out.Encode(l); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return errors.New("usage: gotar write SEED FILE... | gotar list FILE...")
}

func list(archive io.Reader, out *json.Encoder) error {
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return out.Encode(line{End: true})
		}
		var l line
		if err == nil {
			if header.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			l, err = read(header, reader)
		}
		if err != nil {
			return out.Encode(line{End: true, Error: err.Error()})
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
}

func read(header *tar.Header, content io.Reader) (line, error) {
	l := describe(header)
	if l.Size > maxHashed {
		return l, nil
	}
	hash := sha256.New()
	_, err := io.Copy(hash, content)
	l.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return l, err
}

// Everything but the content.
func describe(header *tar.Header) line {
	l := line{
		Name: []byte(header.Name),
		Type: header.Typeflag,
		Size: header.Size,
		Mode: header.Mode,
	}
	switch header.Typeflag {
	case tar.TypeLink, tar.TypeSymlink:
		l.Link = []byte(header.Linkname)
		l.Size = 0
	case tar.TypeDir, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		l.Size = 0
	}
	return l
}
