"""Shows matplotlib's figures as a notebook does: in plt.show(), and at the end of the cell that made them; and plotly's in
figure.show().

matplotlib is not part of Cloister: when code imports matplotlib.pyplot, its show() is patched. MPLBACKEND in the
environment selects the backend Agg; if the code selects another one, its figures are not shown.
"""

import functools
import sys

from cloister.interrupts import calls_guest
from cloister.stdio import complain

_PYPLOT = "matplotlib.pyplot"
_PLOTLY = "plotly.io"
MAX_FIGURES = 32


class Figures:
    """show, show_plotly: called with each figure."""

    def __init__(self, show, show_plotly):
        self._show = show
        self._show_plotly = show_plotly
        self.patches = {_PYPLOT: self._patch_pyplot, _PLOTLY: self._patch_plotly}
        self._seen = []  # figures that the cell has displayed itself

    def _patch_plotly(self, module):
        """Otherwise show() looks for a browser."""

        def show(figure, *arguments, **options):
            if hasattr(figure, "to_html"):
                return self._show_plotly(figure)
            import plotly.graph_objects

            return self._show_plotly(plotly.graph_objects.Figure(figure))

        module.show = show

    def _patch_pyplot(self, pyplot):
        before = pyplot.show

        @functools.wraps(before)
        def show(*arguments, **options):
            if not _is_agg():
                return before(*arguments, **options)
            self._flush(pyplot)
            return None

        pyplot.show = show

    def seen(self, figure):
        self._seen.append(figure)

    def finish(self):
        """Shows the figures that are open at the end of a cell. This runs code of the guest, which may raise."""
        pyplot = sys.modules.get(_PYPLOT)
        try:
            if pyplot is not None and _is_agg():
                self._flush(pyplot)
        except Exception as error:
            complain("cloister: a figure could not be shown: %s: %s\n" % (type(error).__name__, error))
        finally:
            self._seen = []

    @calls_guest
    def _flush(self, pyplot):
        numbers = pyplot.get_fignums()
        try:
            for number in numbers[:MAX_FIGURES]:
                figure = pyplot.figure(number)
                if not any(figure is seen for seen in self._seen):
                    self._show(figure)
        finally:
            if numbers:
                pyplot.close("all")


def _is_agg():
    matplotlib = sys.modules.get("matplotlib")
    try:
        return str(matplotlib.get_backend()).lower() == "agg"
    except Exception:
        return False
