// Says how Prometheus' own parser reads a body, for the differential test of `wire::exposition`.
//
//	go mod init textparse && go get github.com/prometheus/prometheus@v0.315.0 && go mod tidy && go build -o textparse .
//	ICECORE_TEXTPARSE=$PWD/textparse cargo test -p icecore-wire --test all textparse
//
// In: a byte for the format, a length (u32, little endian) and the body, again and again.
// Out: a line for each, `err` or what was read with all texts in hexadecimal.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

var formats = []string{"text/plain", "application/openmetrics-text", "application/vnd.google.protobuf"}

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		format, err := in.ReadByte()
		if err != nil {
			return
		}
		var length uint32
		binary.Read(in, binary.LittleEndian, &length)
		body := make([]byte, length)
		io.ReadFull(in, body)
		fmt.Fprintln(out, read(body, formats[format]))
	}
}

func read(body []byte, format string) (words string) {
	defer func() {
		if recover() != nil {
			words = "panic"
		}
	}()
	parser, err := textparse.New(body, format, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return "err"
	}
	words = "ok"
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return words
		}
		if err != nil {
			return "err"
		}
		switch entry {
		case textparse.EntrySeries:
			_, timestamp, value := parser.Series()
			var set labels.Labels
			parser.Labels(&set)
			// The scrape loop refuses these two.
			if _, twice := set.HasDuplicateLabelNames(); twice || set.Get("__name__") == "" {
				return "err"
			}
			words += " S"
			set.Range(func(l labels.Label) { words += fmt.Sprintf(",%x=%x", l.Name, l.Value) })
			words += fmt.Sprintf(",%x", math.Float64bits(value))
			if timestamp != nil {
				words += fmt.Sprintf("@%d", *timestamp)
			}
			var e exemplar.Exemplar
			if parser.Exemplar(&e) {
				words += fmt.Sprintf("#%x", math.Float64bits(e.Value))
				if e.HasTs {
					words += fmt.Sprintf("@%d", e.Ts)
				}
			}
		case textparse.EntryHistogram:
			_, _, integer, float := parser.Histogram()
			if integer != nil && integer.Validate() != nil || float != nil && float.Validate() != nil {
				return "err"
			}
			words += " N"
		case textparse.EntryType:
			family, name := parser.Type()
			words += fmt.Sprintf(" T,%x,%s", family, name)
		case textparse.EntryHelp:
			family, text := parser.Help()
			words += fmt.Sprintf(" H,%x,%x", family, text)
		case textparse.EntryUnit:
			family, unit := parser.Unit()
			words += fmt.Sprintf(" U,%x,%x", family, unit)
		}
	}
}
