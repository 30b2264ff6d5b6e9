{-# LANGUAGE OverloadedStrings #-}

-- | Event logs made for tests: encoded as the runtime does, but of any shape.
module Logs
  ( encodeLog,
    Block (..),
    event,
    variable,
    plain,
    withBytes,
    withFileOf,
    reading,
    written,
    writtenOf,

    -- * Logs
    small,
    marked,
    nasty,
    crowded,
  )
where

import Data.Bits (unsafeShiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Prim.Exception (bracket)
import Heddle.Trace.Log
import Heddle.Trace.Model
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (Handle, IOMode (..), hClose, openBinaryTempFile, withBinaryFile)

-- | A block: its capability, the time of its begin and end, its events.
data Block = Block Int Int Int [ByteString]

big :: Int -> Int -> ByteString
big count n = B.pack [fromIntegral (n `unsafeShiftR` (8 * k)) | k <- [count - 1, count - 2 .. 0]]

-- | Type, time, and the payload's numbers with their sizes.
event :: Int -> Int -> [(Int, Int)] -> ByteString
event kind time payload = big 2 kind <> big 8 time <> foldMap (uncurry big) payload

-- | An event of variable size.
variable :: Int -> Int -> ByteString -> ByteString
variable kind time payload = event kind time [(2, B.length payload)] <> payload

-- | A whole log: these types with their sizes (0xffff: variable), and blocks.
encodeLog :: [(Int, Int)] -> [Block] -> ByteString
encodeLog types blocks =
  B.concat $
    [C.pack "hdrbhetb"]
      ++ [C.pack "etb\0" <> big 2 t <> big 2 size <> big 4 4 <> C.pack "type" <> big 4 0 <> C.pack "ete\0" | (t, size) <- types]
      ++ [C.pack "hetehdredatb"]
      ++ [event 18 from [(4, 24 + sum (map B.length events)), (8, until'), (2, core)] <> B.concat events | Block core from until' events <- blocks]
      ++ [big 2 0xffff]

-- | The types of the runtime that these tests use.
plain :: [(Int, Int)]
plain =
  [(0, 4), (1, 4), (2, 10), (3, 4), (4, 6), (8, 6), (9, 0), (10, 0), (18, 14), (34, 56), (51, 12), (53, 50), (200, 3)]
    ++ [(kind, 0xffff) | kind <- [19, 24, 29, 30, 44, 181]]

-- | An event log with these bytes, while the action runs.
withBytes :: ByteString -> (FilePath -> IO a) -> IO a
withBytes = withFileOf "heddle.eventlog"

-- | A file with these bytes, and a name like this one.
withFileOf :: String -> ByteString -> (FilePath -> IO a) -> IO a
withFileOf name bytes act = do
  folder <- getTemporaryDirectory
  bracket (openBinaryTempFile folder name >>= \(path, h) -> B.hPut h bytes >> hClose h >> pure path) removeFile act

-- | What a log says, with the number of notes.
reading :: ByteString -> IO (Trace, Int)
reading bytes = withBytes bytes $ \path -> withLog (C.pack path) $ \l -> do
  t <- analyse l (const True) silent
  (_, n) <- logNotes l
  pure (t, n)

-- | What is written of a log with these bytes.
written :: ByteString -> (Handle -> Log -> IO ()) -> IO ByteString
written bytes write = withBytes bytes (`writtenOf` write)

-- | What is written of a log.
writtenOf :: FilePath -> (Handle -> Log -> IO ()) -> IO ByteString
writtenOf path write = withLog (C.pack path) $ \l -> withFileOf "heddle.out" B.empty $ \to -> do
  withBinaryFile to WriteMode (`write` l)
  B.readFile to

-- | Thread 7 with a label that is markup runs 20 times on each core, thread 8 once; core 0 begins idle.
nasty :: ByteString
nasty =
  encodeLog
    plain
    [ Block 0 0 100000 (variable 44 1 (B.pack [0, 0, 0, 7] <> "evil</script><img") : concat [turn (1000 * i) 7 7 | i <- [1 .. 20]]),
      Block 1 0 100000 (variable 19 5 "</script><img src=x>" : concat [turn (1000 * i + 500) 9 3 | i <- [1 .. 20]] ++ [event 3 30000 [(4, 8)]] ++ [variable 181 90000 "heddle io park", variable 181 90000 "heddle sched steal"] ++ turn 90000 8 5)
    ]
  where
    turn t thread reason = [event 1 t [(4, thread)], event 2 (t + 300) [(4, thread), (2, reason), (4, 0)]]

-- | 300,000 runs of 4 cores.
crowded :: ByteString
crowded = encodeLog plain [Block c 0 100000000 (concat [[event 1 (1000 * i) [(4, c)], event 2 (1000 * i + 1 + (i * 7919) `mod` 900) [(4, c), (2, 7), (4, 0)]] | i <- [0 .. 74999]]) | c <- [0 .. 3]]

-- | Thread 7 waits once for a descriptor and once for an MVar. Thread 8 is a worker, which searches, steals, searches and sleeps.
marked :: ByteString
marked =
  encodeLog
    plain
    [ Block
        0
        0
        1000
        [ event 1 0 [(4, 7)],
          variable 181 10 (C.pack "heddle io park"),
          event 2 20 [(4, 7), (2, 7), (4, 0)],
          event 8 120 [(4, 7), (2, 0)],
          event 1 130 [(4, 7)],
          event 2 150 [(4, 7), (2, 7), (4, 0)],
          event 8 200 [(4, 7), (2, 0)],
          event 1 300 [(4, 8)],
          variable 181 300 (C.pack "heddle sched search"),
          variable 181 400 (C.pack "heddle sched steal"),
          variable 181 700 (C.pack "heddle sched search"),
          variable 181 750 (C.pack "heddle sched sleep"),
          variable 181 760 (C.pack "heddle sched unpark"),
          event 2 760 [(4, 8), (2, 7), (4, 0)]
        ]
    ]

-- | Thread 7 runs on core 0, wakes 8, which runs on core 1; a collection; a message; a label.
small :: ByteString
small =
  encodeLog
    plain
    [ Block
        1
        100
        1000
        [ event 1 250 [(4, 8)],
          event 2 300 [(4, 8), (2, 7), (4, 0)],
          event 1 600 [(4, 8)],
          event 2 750 [(4, 8), (2, 5), (4, 0)]
        ],
      Block
        0
        100
        1000
        [ variable 44 110 (B.pack [0, 0, 0, 7] <> C.pack "seven"),
          event 3 150 [(4, 7)],
          event 1 200 [(4, 7)],
          variable 19 300 (C.pack "a message"),
          event 8 450 [(4, 8), (2, 1)],
          event 2 500 [(4, 7), (2, 3), (4, 0)],
          event 9 500 [],
          event 10 600 [],
          event 53 600 [(4, 0), (2, 1), (8, 64), (8, 0), (8, 0), (4, 1), (8, 64), (8, 64)],
          event 1 700 [(4, 7)]
        ],
      Block 0 900 1000 [event 2 900 [(4, 7), (2, 5), (4, 0)]]
    ]
