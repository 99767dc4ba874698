"""Whether a kernel of our own runs, or XLA's form of the same."""

from collections.abc import Callable
from typing import Any

from shoal.core.form import current
from shoal.ops.kernels.flat import CannotLower

KERNELS = ("auto", "on", "off")


def with_kernel(kernels: str, of_form: str, of_kernel: Callable, of_xla: Callable) -> Callable:
    """The function to call: `of_kernel` where a kernel is used, otherwise `of_xla`, which computes the same.

    With `kernels="auto"` the field `of_form` of the form decides, and XLA's form is used where the kernel does not
    apply. With "on" the kernel is used on every GPU. Raises ValueError where it does not apply.
    """
    if kernels == "off" or (kernels == "auto" and not getattr(current(), of_form)):
        return of_xla

    def call(*args: Any) -> Any:
        try:
            return of_kernel(*args)
        except CannotLower as reason:
            if kernels == "on":
                raise ValueError(
                    f"kernels='on', but {of_form.replace('_', ' ')} do not apply here: {reason}. Use kernels='auto', "
                    "which uses those that apply."
                ) from None
            return of_xla(*args)

    return call
