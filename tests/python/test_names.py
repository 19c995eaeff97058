import unittest

import guest  # noqa: F401
from cloister.names import by_identifier, did_you_mean, identifier, server_identifiers


class Identifier(unittest.TestCase):
    def test_rules(self):
        cases = {
            "list-events": "list_events", "a.b": "a_b", "2fa": "_2fa", "class": "class_", "a b/c": "a_b_c",
            "für": "für", "": "_", "x": "x", "None": "None_", "match": "match", "ﬁx": "fix", "😀": "_",
        }  # fmt: skip
        for name, expected in cases.items():
            self.assertEqual(identifier(name), expected)
            self.assertTrue(expected.isidentifier())

    def test_servers(self):
        self.assertEqual(server_identifiers("calendar"), ["mcp_calendar"])
        self.assertEqual(server_identifiers("Google Calendar"), ["mcp_google_calendar", "mcp_Google_Calendar"])
        self.assertEqual(server_identifiers("2x"), ["mcp_2x"])
        self.assertEqual(server_identifiers("class"), ["mcp_class"])

    def test_collisions(self):
        self.assertEqual(by_identifier(["a-b", "a_b", "a.b", "c-d", "e-f", "e.f"]), {"a_b": "a_b", "c_d": "c-d"})


class DidYouMean(unittest.TestCase):
    def test_finds_names_that_differ_in_spelling_only(self):
        self.assertIn('"calendarId"', did_you_mean("calendarid", ["calendarId", "query"]))
        self.assertIn('"calendarId"', did_you_mean("calendar_id", ["calendarId", "query"]))
        self.assertIn('"list-events"', did_you_mean("list_event", ["list-events", "create-event"]))
        self.assertEqual(did_you_mean("zzz", ["calendarId"]), "")


if __name__ == "__main__":
    unittest.main()
