package text

import "errors"

// Besides returns what err was joined from but target: the error of a Close, for instance, after an
// interruption. Where the joined errors stand in another one, err stays whole, or goes with them.
func Besides(err, target error) error {
	var j interface {
		error
		Unwrap() []error
	}
	if errors.As(err, &j) {
		var rest []error
		for _, e := range j.Unwrap() {
			rest = append(rest, Besides(e, target))
		}
		if all := errors.Join(j.Unwrap()...); all != nil && all.Error() == j.Error() {
			left := errors.Join(rest...)
			if left != nil && err.Error() != j.Error() {
				return err
			}
			return left
		}
	}
	if errors.Is(err, target) {
		return nil
	}
	return err
}
