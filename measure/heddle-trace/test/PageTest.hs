{-# LANGUAGE OverloadedStrings #-}

-- | The page: its title, its tables, which are those of the summary, its messages, and what a browser makes of it.
module PageTest (tests) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (intercalate, isInfixOf)
import Heddle.Bytes.Utf8 (toByteString)
import Heddle.Json (decode, defaultLimits)
import Heddle.Json.Decode qualified as Json
import Heddle.Testkit.Browser (inBrowser)
import Heddle.Trace.Log
import Heddle.Trace.Model
import Heddle.Trace.Page
import Heddle.Trace.Summary (summary, tableText)
import Heddle.Trace.Tables
import Logs
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, testCaseInfo, (@?=))
import Workload (withWorkload)

tests :: TestTree
tests =
  testGroup
    "page"
    [ testGroup
        "pageLackedWhatItsSummaryHas: both have the same title, facts and tables, to the last digit"
        ( [testCase name (withBytes bytes agree) | (name, bytes) <- logs]
            ++ [testCase "a log of this runtime" (withWorkload "-l" agree)]
        ),
      testCase "the tables of a log with everything in it" $ do
        (t, notes) <- reading everything
        notes @?= 0
        C.lines (summary (titleOf Nothing "/tmp/a.eventlog" t) 1 t) @?= golden,
      testGroup
        "messagesAfterTheFirstThousandsWereCut"
        [ testCase (show n ++ " messages") $ do
            page <- pageOf (talkative n)
            texts page >>= (@?= map saying [1 .. n])
            times <- numbers "messageTime" page
            times @?= [10 * i | i <- [1 .. n]]
            assertBool "how many there are" (("1 core, 0 threads, " <> C.pack (show n) <> " message") `B.isInfixOf` page)
          | n <- [1, 3001, 4096, 4097, 100000]
        ],
      testCase "messagesAfterTheFirstThousandsWereCut: a part of the log has that part's" $ do
        page <- written (talkative 5000) (\h l -> writePage h l (titleOf Nothing "a") (40000, 45000))
        texts page >>= (@?= map saying [4000 .. 4500])
        assertBool "which part" ("are of 40.0 us to 45.0 us after the program" `B.isInfixOf` page),
      testCase "messagesWereCutAtTheirEnds: long ones are whole, and a page that has no room for all says so" $ do
        let long i = C.pack (show i) <> C.replicate 60000 'x'
        page <- pageOf (encodeLog plain [Block 0 0 1000 [variable 19 i (long i) | i <- [1 .. 700 :: Int]]])
        kept <- texts page
        zipWith const (map long [1 :: Int ..]) kept @?= kept
        assertBool (show (length kept)) (length kept > 500 && length kept < 700)
        assertBool "how many" (("Of 700 messages the page has the first " <> C.pack (show (length kept)) <> ".") `B.isInfixOf` page),
      testGroup
        "logsWereCalledEventLog: the title says what was traced"
        [ testCase what $ do
            let bytes = encodeLog plain [Block 0 0 9 before]
                title = titleOf name "/logs/a.eventlog"
            (t, _) <- reading bytes
            title t @?= expected
            page <- written bytes (\h l -> writePage h l title (minBound, maxBound))
            let places = between "<title>" " \226\128\147 timeline</title>" page ++ between "<h1>" "</h1>" page
            map plainText places @?= [expected, expected]
            assertBool (show places) (not (any (C.any (`elem` ("<>\"'" :: String))) places))
          | (what, before, name, expected) <-
              [ ("nothing but the file", [], Nothing, "a.eventlog"),
                ("a program", [arguments ["/bin/server", "-p", "a b", ""]], Nothing, "server -p 'a b' '' (a.eventlog)"),
                ("Eden's event", [variable 24 0 "/bin/server -p"], Nothing, "server -p (a.eventlog)"),
                ("markup", [arguments ["s", "<script>x</script>", "\"&'"]], Nothing, "s <script>x</script> \"&' (a.eventlog)"),
                ("no UTF-8", [arguments ["s\255", "\27[31m"]], Nothing, "s\239\191\189 ?[31m (a.eventlog)"),
                ("a chosen name", [arguments ["server"]], Just "</title><script>", "</title><script>")
              ]
        ],
      testCase "durations have three digits, and halves are rounded up" $
        map duration [0, 999, 1000, 1005, 9994, 9995, 99949, 99950, 999499, 999500, 1234567, 2500000000, 12345000000000]
          @?= ["0 ns", "999 ns", "1.00 us", "1.01 us", "9.99 us", "10.0 us", "99.9 us", "100 us", "999 us", "1.00 ms", "1.23 ms", "2.50 s", "12345 s"],
      testCase "nothing of the log ends the page's scripts" $ do
        page <- pageOf nasty
        map (C.count '<') (between "<script id=\"data\" type=\"application/json\">" "</script>" page) @?= [0]
        texts page >>= (@?= ["</script><img src=x>"])
        C.breakSubstring "<img" page @?= (page, ""),
      testCase "a page of very many runs has at most 5 MB, and says that it has the longest" $ do
        page <- pageOf crowded
        assertBool (show (B.length page)) (B.length page <= 5000000 && B.length page > 500000)
        assertBool "all of them" ("Runs shorter than " `B.isInfixOf` page),
      testCaseInfo "Chromium: the page loads, finds a thread, zooms, sorts, and fits a narrow screen" $
        probed nasty probe expectedOfPage,
      testCaseInfo "Chromium: messagesAfterTheFirstThousandsWereCut: 100,000 of them, a page at a time, and those with a text" $
        probed (talkative 100000) messagesProbe expectedOfMessages,
      testCaseInfo "Chromium: the page's script rounds durations as the tables do" $
        probed
          small
          [C.pack ("say('durations', " ++ show edges ++ ".map(time).join('; '));")]
          ["durations: " <> C.intercalate "; " (map duration edges)]
    ]
  where
    logs =
      [ ("two threads", small),
        ("markers and workers", marked),
        ("labels that are markup", nasty),
        ("no events", encodeLog plain []),
        ("everything", everything),
        ("more threads than the page has", encodeLog plain [Block 0 0 100000 (concatMap oneRun [1 .. 2500])])
      ]
    oneRun i = [event 1 (9 * i) [(4, i)], event 2 (9 * i + i `mod` 8) [(4, i), (2, 5), (4, 0)]]
    -- Where the digits or the unit change.
    edges =
      [0, 1, 999]
        ++ [ n + k
             | unit <- [1000, 1000000, 1000000000],
               n <- map (\part -> part * unit `div` 1000) [1000, 1625, 9995, 10000, 99950, 999500],
               k <- [-1, 0, 1]
           ]

-- | The page's title, facts and tables are the summary's.
agree :: FilePath -> IO ()
agree path = do
  expected <- withLog (C.pack path) $ \l -> do
    t <- analyse l (const True) silent
    pure (summary (titleOf Nothing "a" t) 2000 t)
  page <- writtenOf path (\h l -> writePage h l (titleOf Nothing "a") (minBound, maxBound))
  let first before after = plainText (B.concat (take 1 (between before after page)))
      blocks = [first "<h1>" "</h1>", first "<p class=\"soft\">" "</p>"] : map (tableText . tableOf) (between "<section>\n" "</section>" page)
  C.unlines (map (C.dropWhileEnd (== ' ')) (intercalate [""] blocks)) @?= expected

-- | A table as it is on the page.
tableOf :: ByteString -> Table
tableOf section = Table "" "" (texts' "<th scope=\"col\">" "</th>" section) (map row (drop 1 (pieces "<tr" section))) (B.concat (texts' "<p class=\"soft\">" "</p>" section))
  where
    texts' before after = map plainText . between before after
    row r = Row (B.concat (texts' "<th scope=\"row\">" "</th>" r)) Nothing (map (Cell Nothing . B.drop 1 . C.dropWhile (/= '>')) (texts' "<td" "</td>" r))

-- | What stands between two texts, each time.
between :: ByteString -> ByteString -> ByteString -> [ByteString]
between before after = map (fst . B.breakSubstring after) . pieces before

-- | What comes after each occurrence of a text.
pieces :: ByteString -> ByteString -> [ByteString]
pieces mark whole
  | B.null rest = []
  | otherwise = let more = B.drop (B.length mark) rest in fst (B.breakSubstring mark more) : pieces mark more
  where
    rest = snd (B.breakSubstring mark whole)

-- | Without the escapes of HTML.
plainText :: ByteString -> ByteString
plainText html = case B.breakSubstring "&#" html of
  (before, after)
    | B.null after -> before
    | otherwise -> case C.readInt (B.drop 2 after) of
      Just (n, more) -> before <> B.singleton (fromIntegral n) <> plainText (B.drop 1 more)
      Nothing -> error "an escape without a number"

-- | The messages' texts.
texts :: ByteString -> IO [ByteString]
texts page = map toByteString . concat <$> mapM one (between "<script class=\"texts\" type=\"application/json\">" "</script>" page)
  where
    one script = either (assertFailure . show) pure (decode defaultLimits (Json.list Json.utf8) script)

numbers :: ByteString -> ByteString -> IO [Int]
numbers key page = case between ("\"" <> key <> "\":") "]" page of
  [found] -> either (assertFailure . show) pure (decode defaultLimits (Json.list Json.int) (found <> "]"))
  found -> assertFailure (show (length found))

pageOf :: ByteString -> IO ByteString
pageOf bytes = written bytes (\h l -> writePage h l (titleOf Nothing "a.eventlog") (minBound, maxBound))

-- | Messages on a core, each 10 ns after the other.
talkative :: Int -> ByteString
talkative n = encodeLog plain [Block 0 0 (10 * n) [variable 19 (10 * i) (saying i) | i <- [1 .. n]]]

saying :: Int -> ByteString
saying i = "message " <> C.pack (show i)

arguments :: [ByteString] -> ByteString
arguments strings = variable 30 0 (B.pack [0, 0, 0, 0] <> foldMap (<> "\0") strings)

-- | Every table has a row.
everything :: ByteString
everything =
  encodeLog
    plain
    [ Block
        0
        0
        10000000
        [ arguments ["/usr/bin/server", "-p", "80"],
          variable 29 0 "\0\0\0\0GHC-9.0.2 rts_thr",
          variable 44 1 "\0\0\0\7caf\195\169 <b>",
          event 1 1000 [(4, 7)],
          variable 181 2000 "heddle sched search",
          variable 181 3000 "heddle sched steal",
          variable 19 3500 "hello",
          variable 181 500000 "heddle sched sleep",
          event 2 1000000 [(4, 7), (2, 7), (4, 0)],
          event 8 2000000 [(4, 7), (2, 0)],
          event 1 2009995 [(4, 7)],
          event 2 3000000 [(4, 7), (2, 1), (4, 0)],
          event 9 3000000 [],
          event 10 4999500 [],
          event 53 4999500 [(4, 0), (2, 1), (8, 65536), (8, 0), (8, 0), (4, 1), (8, 64), (8, 64)],
          event 51 4999500 [(4, 0), (8, 12345678)],
          event 34 5000000 [(8, k) | k <- [9, 1, 2, 3, 4, 5, 6]],
          event 1 6000000 [(4, 8)],
          event 2 6000500 [(4, 8), (2, 5), (4, 0)]
        ]
    ]

-- Its summary with one thread.
golden :: [ByteString]
golden =
  [ "server -p 80 (a.eventlog)",
    "10.0 ms, 19 events, 1 core, 2 threads, 1 message, GHC-9.0.2 rts_thr",
    "",
    "core  running     GC   idle  idle: work waited  idle: nothing to run  runs                            last waited for",
    "0       19.9%  20.0%  60.1%              50.1%                 10.0%     3  work (heddle-sched) 10.0%, not known 0.0%",
    "",
    "latency                     count   median      90%      99%  greatest",
    "wake-up (ready to running)      1  10.0 us  10.0 us  10.0 us   10.0 us",
    "run                             3   999 us   999 us   999 us    999 us",
    "blocked                         1  1.00 ms  1.00 ms  1.00 ms   1.00 ms",
    "GC pause of a core              1  2.00 ms  2.00 ms  2.00 ms   2.00 ms",
    "",
    "thread        runs  running  waits  waiting  longest  wake-ups   median      99%  greatest  moves   last stop",
    "caf\195\169 <b> (7)     2  1.99 ms      1  1.00 ms  1.00 ms         1  10.0 us  10.0 us   10.0 us      0  heap check",
    "and 1 thread more, which ran 500 ns",
    "",
    "blocked on           count   in all     mean  greatest",
    "work (heddle-sched)      1  1.00 ms  1.00 ms   1.00 ms",
    "",
    "worker        running  searching  asleep  steals",
    "caf\195\169 <b> (7)     5.0%       0.0%   95.0%       1",
    "",
    "markers of core  sched search  sched steal  sched sleep",
    "0                           1            1            1",
    "",
    "generation  collections   in all  greatest  copied",
    "1                     1  2.00 ms   2.00 ms   65 kB",
    "",
    "sparks of core  created  dud  overflowed  converted  collected  fizzled",
    "0                     9    1           2          3          4        5",
    "",
    "heap  greatest",
    "live     12 MB"
  ]

-- | Of what the page says in a narrow window, these are lines.
probed :: ByteString -> [ByteString] -> [ByteString] -> IO String
probed bytes script expected = do
  (before, after) <- B.breakSubstring "</body>" <$> pageOf bytes
  let say = ["<pre id='probe'></pre><script>", "let errors = 0; window.onerror = () => { errors++; };", "const say = (k, v) => { $('probe').textContent += k + ': ' + v + '\\n'; };"]
      ends = ["say('wide', document.documentElement.scrollWidth > document.documentElement.clientWidth); draw(); say('errors', errors);", "</script>"]
  withFileOf "heddle.html" (before <> C.unlines (say ++ script ++ ends) <> after) $ \path -> inBrowser 500 path $ \dom ->
    forM_ expected $ \line -> assertBool (C.unpack line ++ " in\n" ++ reverse (take 1500 (reverse dom))) (C.unpack line `isInfixOf` dom)

-- Runs in the page after its own script.
probe :: [ByteString]
probe =
  [ "$('search').value = 'evil'; $('search').dispatchEvent(new Event('input')); say('found', $('found').textContent);",
    "const span = to - from; document.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true })); canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -200, cancelable: true })); say('zoomed', to - from < span / 2);",
    "const was = from; $('right').click(); say('moved', from > was); show(data.begin, data.end);",
    "about(labelWidth + 1, top0 + 5); say('idle', $('about').textContent.includes('idle for'));",
    "$('search').value = ''; $('search').dispatchEvent(new Event('input')); const head = $('threads').tHead.rows[0].cells[8]; head.click(); say('first row', $('threads').tBodies[0].rows[0].cells[0].textContent); say('order', head.getAttribute('aria-sort'));",
    "about(xOf(90000), top0 + laneHeight + gap + 5); say('marked', $('about').textContent.includes('markers: io park') && $('markers').tBodies[0].rows.length === 1);"
  ]

messagesProbe :: [ByteString]
messagesProbe =
  [ "const words = r => r.cells[0].textContent + ' ' + r.cells[2].textContent, rows = () => [...$('messages').tBodies[0].rows];",
    "say('range', $('range').textContent); $('lastPage').click(); say('last', words(rows().pop())); $('pageBefore').click(); say('rows', rows().length);",
    "$('filter').value = 'Message 99999'; filterMessages(); say('found', $('range').textContent); say('row', words(rows()[0]));",
    "rows()[0].click(); say('time', from < 999990 && to > 999990 && to - from < total / 100); say('about', $('about').textContent);"
  ]

expectedOfPage, expectedOfMessages :: [ByteString]
expectedOfPage =
  [ "found: evil&lt;/script&gt;&lt;img (7): 20 runs on this page",
    "zoomed: true",
    "moved: true",
    "idle: true",
    "first row: thread 8",
    "order: descending",
    "marked: true",
    "wide: false",
    "errors: 0"
  ]
expectedOfMessages =
  [ "range: 1 to 200 of 100,000 messages",
    "last: 0.001000000 s message 100000",
    "rows: 200",
    "found: 1 with this text, of 100,000 messages",
    "row: 0.000999990 s message 99999",
    "time: true",
    "about: message at 0.000999990 s: message 99999",
    "wide: false",
    "errors: 0"
  ]
