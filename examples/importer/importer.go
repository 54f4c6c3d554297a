// Importer loads a CSV file into a database, with an index of one of its columns, and serves it by
// HTTP:
//
//	importer -make 10000000 people.csv
//	importer people.csv db
//	importer -serve localhost:8080 db
//
// /people/ID is a line of the file, /cities/NAME the lines of a city, 100 at most, and
// /cities/NAME?after=ID those behind them. Lines come in any order: a bulk load sorts them. Loading
// a file again replaces the lines with the same ids, and both the lines and their index are there
// when the program says so, or can be loaded again.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/loamdb/loam/lsm"
)

func main() {
	count := flag.Int("make", 0, "lines of a file to make")
	address := flag.String("serve", "", "the address to serve a database on")
	flag.Parse()
	if err := run(*count, *address, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(count int, address string, args []string) error {
	switch {
	case count > 0 && len(args) == 1:
		f, err := os.Create(args[0])
		if err != nil {
			return err
		}
		return errors.Join(makeFile(f, count), f.Close())
	case address != "" && len(args) == 1:
		p, err := open(args[0])
		if err != nil {
			return err
		}
		defer p.db.Close()
		server := &http.Server{Addr: address, Handler: p.handler(), ReadTimeout: time.Minute}
		return server.ListenAndServe()
	case len(args) == 2:
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		p, err := open(args[1])
		if err != nil {
			return err
		}
		defer p.db.Close()
		start := time.Now()
		n, err := p.load(context.Background(), f)
		fmt.Printf("%d lines in %.1f s\n", n, time.Since(start).Seconds())
		return err
	}
	return errors.New("usage: importer [-make N] FILE | FILE DIR | -serve ADDRESS DIR")
}

// makeFile writes lines with the ids below n in an order of chance: id, name, city.
func makeFile(to io.Writer, n int) error {
	rng := rand.New(rand.NewPCG(1, 2))
	w := csv.NewWriter(to)
	// A step that has no divisor with n goes over all ids.
	step := n/2 + 1
	for gcd(step, n) != 1 {
		step++
	}
	for i, id := 0, 0; i < n; i, id = i+1, (id+step)%n {
		name := fmt.Sprintf("%c. Person, %d", 'A'+rune(rng.IntN(26)), rng.IntN(n))
		line := []string{fmt.Sprintf("%08d", id), name, fmt.Sprintf("city%04d", id%1000)}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// people is a database of lines under their ids, and of a keyspace with the ids of each city, under
// the city, a zero byte and the id.
type people struct {
	db     *lsm.DB
	cities *lsm.Keyspace
}

func open(dir string) (*people, error) {
	db, err := lsm.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	cities, err := db.Keyspace("cities", nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &people{db, cities}, nil
}

func inCity(city, id string) []byte { return []byte(city + "\x00" + id) }

// load puts the lines of a file into the database, the index first: an id in it without a line is
// passed over by readers, and a line without its id would not be found.
func (p *people) load(ctx context.Context, file io.Reader) (n int, err error) {
	lines, err := p.db.BulkLoader(nil)
	if err != nil {
		return 0, err
	}
	defer lines.Close()
	index, err := p.cities.BulkLoader(nil)
	if err != nil {
		return 0, err
	}
	defer index.Close()
	r := csv.NewReader(file)
	r.FieldsPerRecord, r.ReuseRecord = 3, true
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, err
		}
		if err := lines.Put([]byte(line[0]), []byte(line[1]+"\t"+line[2])); err != nil {
			return n, err
		}
		if err := index.Put(inCity(line[2], line[0]), nil); err != nil {
			return n, err
		}
		n++
	}
	if err := index.Finish(ctx); err != nil {
		return n, err
	}
	return n, lines.Finish(ctx)
}

func (p *people) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /people/{id}", func(w http.ResponseWriter, r *http.Request) {
		line, err := p.db.Get([]byte(r.PathValue("id")), nil)
		if errors.Is(err, lsm.ErrNotFound) {
			http.NotFound(w, r)
			return
		}
		p.answer(w, []string{r.PathValue("id") + "\t" + string(line)}, err)
	})
	mux.HandleFunc("GET /cities/{name}", func(w http.ResponseWriter, r *http.Request) {
		lines, err := p.ofCity(r.PathValue("name"), r.URL.Query().Get("after"))
		p.answer(w, lines, err)
	})
	return mux
}

func (p *people) answer(w http.ResponseWriter, lines []string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/tab-separated-values; charset=utf-8")
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return // the client is gone
		}
	}
}

// ofCity reads up to 100 lines of a city behind an id, their values by one call.
func (p *people) ofCity(city, after string) (lines []string, err error) {
	from := inCity(city, "")
	if after != "" {
		from = inCity(city, after+"\x00")
	}
	var ids [][]byte
	for key := range p.cities.All(from, []byte(city+"\x01"), &err) {
		if ids = append(ids, []byte(string(key[len(city)+1:]))); len(ids) == 100 {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var found lsm.MultiResult
	if err := p.db.MultiGet(ids, &found); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if line, ok := found.Value(i); ok {
			lines = append(lines, string(id)+"\t"+string(line))
		}
	}
	return lines, nil
}
