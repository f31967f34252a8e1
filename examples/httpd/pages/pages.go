// Package pages is what the example serves: pages whose content is always the
// same, so that whoever fetches one can tell whether it is whole.
package pages

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
)

// block is the content, over and over.
var block = func() []byte {
	b := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// Handler serves a greeting under / and N bytes of content under /bytes/N.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Good morning, %s. There are /bytes/100000000 here, or as many as you like.\n", r.RemoteAddr)
	})
	mux.HandleFunc("GET /bytes/{size}", func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.ParseInt(r.PathValue("size"), 10, 64)
		if err != nil || size < 0 {
			http.Error(w, "a number of bytes must follow /bytes/", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		_ = write(w, size) // one who hangs up has no use for an error
	})
	return mux
}

// write writes the first size bytes of the content.
func write(w io.Writer, size int64) error {
	for size > 0 {
		n, err := w.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

// Sum is the SHA-256 of /bytes/size.
func Sum(size int64) [sha256.Size]byte {
	sum := sha256.New()
	_ = write(sum, size) // a hash takes everything
	return [sha256.Size]byte(sum.Sum(nil))
}

// Compare wants the file to hold /bytes/size.
func Compare(name string, size int64) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err == nil && [sha256.Size]byte(sum.Sum(nil)) != Sum(size) {
		err = fmt.Errorf("%s: %d bytes of %d arrived, and not the right ones", name, n, size)
	}
	return err
}
