{-# OPTIONS_GHC -fno-full-laziness #-}

-- |
-- Module      : Heddle.Pipe.Internal.Bytes
-- Description : Files, handles, sockets and lines
-- Stability   : internal
--
-- Bytes flow in chunks. A chunk is some ten thousand bytes, so what a hop costs is nothing to
-- what is done with it.
--
-- Cost: of a line a hop; it shares the chunk's memory where it lies in one chunk.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Bytes
  ( fromFile,
    toFile,
    fromHandle,
    toHandle,
    receiving,
    sending,
    lines,
    linesUpTo,
    unlines,
    ItemTooLong (..),
  )
where

import Control.Monad.IO.Class (liftIO)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Pipe.Internal.Guard (bracketP)
import Heddle.Pipe.Internal.Items (forEach)
import Heddle.Pipe.Internal.Types
import Heddle.Prim.Exception (Exception (..), throwIO)
import System.IO (Handle, IOMode (..), hClose, openBinaryFile)
import Prelude hiding (lines, unlines)

-- | A file's bytes. The file is open from the first chunk until the last, or until this is
-- cancelled.
--
-- [Throws]: 'IOError'.
fromFile :: FilePath -> Pipe i ByteString ()
fromFile path = bracketP (openBinaryFile path ReadMode) hClose fromHandle

-- | Into a file, which is emptied first.
--
-- [Throws]: 'IOError'.
toFile :: FilePath -> Pipe ByteString o ()
toFile path = bracketP (openBinaryFile path WriteMode) hClose toHandle

-- | A handle's bytes as they come, up to 64 KiB at a time. It stays open.
--
-- [Throws]: 'IOError'.
fromHandle :: Handle -> Pipe i ByteString ()
fromHandle handle = receiving (B.hGetSome handle 65536)

-- | Into a handle, as its buffering has it. It stays open.
--
-- [Throws]: 'IOError'.
toHandle :: Handle -> Pipe ByteString o ()
toHandle handle = sending (B.hPut handle)

-- | What this receives, until it is empty: for a socket.
receiving :: IO ByteString -> Pipe i ByteString ()
receiving receive = go
  where
    go = liftIO receive >>= \chunk -> if B.null chunk then pure () else yield chunk *> go

-- | Send every chunk with this: for a socket.
sending :: (ByteString -> IO ()) -> Pipe ByteString o ()
sending = forEach

-- | The lines of chunks, without their line ends; the last one may lack its end.
--
-- [Throws]: 'ItemTooLong' for a line of more than 8 MiB.
lines :: Pipe ByteString ByteString ()
lines = linesUpTo 8388608

-- | The same, with another limit, in bytes.
--
-- [Cost]: a line that lies in one chunk shares its memory; one that does not is copied once.
-- [Throws]: 'ItemTooLong'. At most the limit and a chunk is held.
linesUpTo :: Int -> Pipe ByteString ByteString ()
linesUpTo limit = go 0 0 []
  where
    -- Where the line begins, how much of it there is, and its pieces, last one first.
    go !start !held pieces =
      await >>= \case
        Nothing -> if held == 0 then pure () else yield (B.concat (reverse pieces))
        Just chunk -> split start held pieces chunk
    split start held pieces chunk = case B.elemIndex 10 chunk of
      Nothing
        | B.null chunk -> go start held pieces
        | size > limit -> tooLong start
        | otherwise -> go start size (chunk : pieces)
        where
          size = held + B.length chunk
      Just i
        | size > limit -> tooLong start
        | otherwise -> yield line *> split (start + size + 1) 0 [] (B.drop (i + 1) chunk)
        where
          size = held + i
          line = if held == 0 then B.take i chunk else B.concat (reverse (B.take i chunk : pieces))
    tooLong start = liftIO (throwIO (ItemTooLong start limit))

-- | Each with a line end.
--
-- [Cost]: a copy of each.
unlines :: Pipe ByteString ByteString ()
unlines = go where go = await >>= maybe (pure ()) (\line -> yield (B.snoc line 10) *> go)

-- | An item is longer than it may be.
data ItemTooLong = ItemTooLong
  { -- | Where in the stream it begins, in bytes.
    itemOffset :: !Int,
    -- | How long an item may be.
    itemLimit :: !Int
  }
  deriving stock (Eq, Show)

instance Exception ItemTooLong where
  displayException (ItemTooLong offset limit) =
    "the item at byte " ++ show offset ++ " is longer than " ++ show limit ++ " bytes"
