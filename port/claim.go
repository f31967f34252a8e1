package port

import (
	"fmt"
	"sync"
)

// claims are the ports whose queues somebody has claimed, and who.
var claims = struct {
	sync.Mutex
	by map[Port]string
}{by: map[Port]string{}}

// Claim makes the queues of p those of one user alone, an adapter for another
// library, say: a second one would take packets away from the first. user is its
// name, for the error of the second, which wraps ErrState. release gives the queues
// back; a second call does nothing. Programs that drive queues themselves need not
// claim them.
func Claim(p Port, user string) (release func(), err error) {
	claims.Lock()
	defer claims.Unlock()
	if by, taken := claims.by[p]; taken {
		return nil, fmt.Errorf("%s: %w: %s has its queues: close that first", p.Name(), ErrState, by)
	}
	claims.by[p] = user
	return sync.OnceFunc(func() {
		claims.Lock()
		defer claims.Unlock()
		delete(claims.by, p)
	}), nil
}
