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
  )
where

import Control.Exception (bracket)
import Data.Bits (unsafeShiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Trace.Log
import Heddle.Trace.Model
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (hClose, openBinaryTempFile)

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
plain = [(0, 4), (1, 4), (2, 10), (3, 4), (4, 6), (8, 6), (9, 0), (10, 0), (18, 14), (19, 0xffff), (44, 0xffff), (53, 50), (181, 0xffff), (200, 3)]

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
