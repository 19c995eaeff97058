"""temporary"""


class Namespace:
    def __init__(self, main, channel):
        self.main = main

    def start(self):
        d = vars(self.main)
        d.pop("_cloister", None)

    def on_catalogue(self, version, payload):
        pass

    def refresh(self):
        pass

    def prepare(self, codes):
        pass
