package text

import "errors"

// Besides returns what err was joined from but target: the error of a Close, for instance, after an
// interruption.
func Besides(err, target error) error {
	var j interface{ Unwrap() []error }
	if errors.As(err, &j) {
		var rest []error
		for _, e := range j.Unwrap() {
			rest = append(rest, Besides(e, target))
		}
		if all := errors.Join(j.Unwrap()...); all != nil && all.Error() == err.Error() {
			return errors.Join(rest...)
		}
	}
	if errors.Is(err, target) {
		return nil
	}
	return err
}
