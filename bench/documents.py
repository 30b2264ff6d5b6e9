#!/usr/bin/env python3
"""Writes the JSON documents of the byte benchmarks into a folder; the same ones every time.

usage: documents.py FOLDER

twitter.json has what a search for posts answers: objects in objects, links, much text, part of it Japanese, with
escapes; records.json is a list of flat records; numbers.json is lists of coordinates and of counts.
"""
import json
import os
import random
import sys

ENGLISH = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were all her she there would their we him been has when who will no more if out so up said what its about"
).split()
JAPANESE = (
    "昨日は友達と映画を見に行きました 今日はとても寒いですね 新しい仕事が始まります 明日の天気は晴れでしょう おはようございます "
    "駅前の店で昼ご飯を食べた 写真を撮るのが好きです 名前 電車が遅れている 来週の会議について 東京都 楽しかった また会いましょう"
).split()
ESCAPES = ['"', "\\", "\n", "\t", "/", "&", "<3", "\u00e9", "\U0001f600", "\U0001f389"]


class Writer:
    """Everything that is random, from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def words(self, least, most):
        return " ".join(self.random.choice(ENGLISH) for _ in range(self.random.randint(least, most)))

    def text(self):
        """About as long as a post: Japanese in four of ten."""
        if self.random.random() < 0.4:
            text = "".join(self.random.choice(JAPANESE) + "。" for _ in range(self.random.randint(2, 6)))
        else:
            text = self.words(5, 25)
        for _ in range(self.random.randint(0, 2)):
            at = self.random.randint(0, len(text))
            text = text[:at] + self.random.choice(ESCAPES) + text[at:]
        return text

    def name(self):
        return self.random.choice(ENGLISH) + str(self.random.randint(0, 99999))

    def identity(self):
        return self.random.randint(10**17, 10**18)

    def maybe(self, chance, value):
        return value if self.random.random() < chance else None

    def link(self, host):
        return f"http://{host}/{self.random.getrandbits(48):012x}"

    def date(self):
        day = self.random.choice(("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"))
        hour, minute, second = (self.random.randint(0, top) for top in (23, 59, 59))
        return f"{day} Aug {self.random.randint(1, 31):02} {hour:02}:{minute:02}:{second:02} +0000 2014"

    def indices(self):
        start = self.random.randint(0, 120)
        return [start, start + self.random.randint(3, 20)]

    def user(self):
        identity = self.identity() % 3000000000
        japanese = self.random.random() < 0.5
        return {
            "id": identity,
            "id_str": str(identity),
            "name": self.random.choice(JAPANESE) if japanese else self.words(1, 3),
            "screen_name": self.name(),
            "location": self.random.choice(JAPANESE) if self.random.random() < 0.2 else self.words(0, 2),
            "description": self.text(),
            "url": self.maybe(0.4, self.link("t.example")),
            "protected": False,
            "followers_count": int(self.random.paretovariate(0.6)) % 5000000,
            "friends_count": int(self.random.paretovariate(0.7)) % 100000,
            "listed_count": self.random.randint(0, 300),
            "created_at": self.date(),
            "favourites_count": self.random.randint(0, 20000),
            "utc_offset": self.maybe(0.5, self.random.randrange(-43200, 50400, 1800)),
            "time_zone": self.maybe(0.5, self.random.choice(("Tokyo", "Irkutsk", "London", "Hawaii"))),
            "geo_enabled": self.random.random() < 0.3,
            "verified": self.random.random() < 0.05,
            "statuses_count": self.random.randint(1, 100000),
            "lang": "ja" if japanese else "en",
            "contributors_enabled": False,
            "is_translator": False,
            "profile_background_color": f"{self.random.getrandbits(24):06X}",
            "profile_background_image_url": self.link("abs.images.example"),
            "profile_background_tile": self.random.random() < 0.5,
            "profile_image_url": self.link("pbs.images.example"),
            "profile_link_color": f"{self.random.getrandbits(24):06X}",
            "default_profile": self.random.random() < 0.5,
            "following": False,
        }

    def entities(self):
        few = lambda most: range(max(0, self.random.randint(-1, most)))
        return {
            "hashtags": [{"text": self.name(), "indices": self.indices()} for _ in few(2)],
            "urls": [
                {
                    "url": self.link("t.example"),
                    "expanded_url": self.link("www.pages.example"),
                    "display_url": "pages.example/" + self.name(),
                    "indices": self.indices(),
                }
                for _ in few(2)
            ],
            "user_mentions": [
                {
                    "screen_name": self.name(),
                    "name": self.words(1, 2),
                    "id": self.identity() % 3000000000,
                    "indices": self.indices(),
                }
                for _ in few(3)
            ],
        }

    def status(self, deep=True):
        identity = self.identity()
        return {
            "created_at": self.date(),
            "id": identity,
            "id_str": str(identity),
            "text": self.text(),
            "source": f'<a href="{self.link("client.example")}" rel="nofollow">{self.words(1, 3)}</a>',
            "truncated": False,
            "in_reply_to_status_id": self.maybe(0.2, self.identity()),
            "in_reply_to_screen_name": self.maybe(0.2, self.name()),
            "user": self.user(),
            "retweeted_status": self.status(False) if deep and self.random.random() < 0.4 else None,
            "retweet_count": int(self.random.paretovariate(0.8)) % 100000,
            "favorite_count": int(self.random.paretovariate(0.8)) % 100000,
            "entities": self.entities(),
            "favorited": False,
            "retweeted": False,
            "possibly_sensitive": self.maybe(0.4, False),
            "lang": self.random.choice(("ja", "en")),
        }


def twitter():
    writer = Writer(1)
    return {
        "statuses": [writer.status() for _ in range(300)],
        "search_metadata": {
            "completed_in": 0.087,
            "max_id": writer.identity(),
            "query": "%E4%B8%80",
            "count": 300,
            "since_id": 0,
        },
    }


def records():
    writer = Writer(2)
    return [
        {
            "id": number,
            "name": writer.words(2, 2),
            "email": f"{writer.name()}@mail.example",
            "age": writer.random.randint(18, 90),
            "active": writer.random.random() < 0.7,
            "balance": round(writer.random.gauss(1000, 4000), 2),
            "score": writer.random.random(),
            "joined": f"{writer.random.randint(2001, 2026)}-{writer.random.randint(1, 12):02}-{writer.random.randint(1, 28):02}",
            "tags": [writer.random.choice(ENGLISH) for _ in range(writer.random.randint(0, 4))],
            "address": {
                "street": f"{writer.random.randint(1, 200)} {writer.random.choice(ENGLISH).title()} Street",
                "city": writer.random.choice(ENGLISH).title(),
                "zip": f"{writer.random.randint(0, 99999):05}",
            },
            "manager": writer.maybe(0.6, writer.random.randint(0, number)),
        }
        for number in range(6000)
    ]


def numbers():
    writer = Writer(3)
    coordinate = lambda: [writer.random.uniform(-180, 180), round(writer.random.uniform(-90, 90), 6)]
    return {
        "name": "coordinates and counts",
        "lines": [[coordinate() for _ in range(writer.random.randint(50, 300))] for _ in range(200)],
        "measured": [writer.random.lognormvariate(0, 20) for _ in range(10000)],
        "counts": [int(10 ** writer.random.uniform(0, 18)) * writer.random.choice((1, 1, -1)) for _ in range(30000)],
    }


def write(folder):
    """All of them, as compact as they can be; answers their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for make in (twitter, records, numbers):
        paths.append(os.path.join(folder, make.__name__ + ".json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump(make(), file, ensure_ascii=False, separators=(",", ":"))
    return paths


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for path in write(sys.argv[1]):
        print(f"{os.path.getsize(path):>9} {path}")


if __name__ == "__main__":
    main()
