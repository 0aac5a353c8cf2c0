package shoal_test

import (
	"fmt"

	"github.com/shoal-go/shoal"
)

// Transactions of one account run in order, one at a time, so they need no
// lock; those of different accounts run side by side.
func ExampleKeyed() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	type account struct{ balance, refused int }
	accounts := map[string]*account{"ada": {balance: 100}, "bob": {balance: 10}}
	book := shoal.NewKeyed[string](pool)
	transfer := func(name string, amount int) {
		a := accounts[name] // the map itself is only read
		if err := book.Submit(name, func() {
			if a.balance+amount < 0 {
				a.refused++
				return
			}
			a.balance += amount
		}); err != nil {
			fmt.Println(err)
		}
	}
	for range 50 {
		transfer("ada", -10)
		transfer("bob", +1)
		transfer("ada", +9)
	}
	pool.Wait()
	fmt.Println(*accounts["ada"], *accounts["bob"])
	// Output: {50 0} {60 0}
}
