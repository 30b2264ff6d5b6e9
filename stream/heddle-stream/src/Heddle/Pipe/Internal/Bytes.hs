{-# OPTIONS_GHC -fno-full-laziness #-}

-- |
-- Module      : Heddle.Pipe.Internal.Bytes
-- Description : Files, handles, sockets and lines
-- Stability   : internal
--
-- Bytes flow in chunks of some ten thousand bytes, so a hop costs little beside the work on a
-- chunk.
--
-- Cost: a hop for each line; a line within one chunk shares the chunk's memory.
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
  )
where

import Control.Monad.IO.Class (liftIO)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Pipe.Internal.Exception (ItemTooLong (..))
import Heddle.Pipe.Internal.Guard (bracketP)
import Heddle.Pipe.Internal.Items (forEach)
import Heddle.Pipe.Internal.Types
import Heddle.Prim.Exception (throwIO)
import System.IO (Handle, IOMode (..), hClose, openBinaryFile)
import Prelude hiding (lines, unlines)

-- | The bytes of a file. The file is open from the first chunk until the last, or until the
-- pipe is cancelled.
--
-- [Throws]: 'IOError'.
fromFile :: FilePath -> Pipe i ByteString ()
fromFile path = bracketP (openBinaryFile path ReadMode) hClose fromHandle

-- | Write to a file, which is truncated first.
--
-- [Throws]: 'IOError'.
toFile :: FilePath -> Pipe ByteString o ()
toFile path = bracketP (openBinaryFile path WriteMode) hClose toHandle

-- | The bytes of a handle as they come, up to 64 KiB at a time. The handle stays open.
--
-- [Throws]: 'IOError'.
fromHandle :: Handle -> Pipe i ByteString ()
fromHandle handle = receiving (B.hGetSome handle 65536)

-- | Write to a handle, with the handle's buffering. The handle stays open.
--
-- [Throws]: 'IOError'.
toHandle :: Handle -> Pipe ByteString o ()
toHandle handle = sending (B.hPut handle)

-- | What an action receives, for example from a socket, until it receives an empty chunk.
receiving :: IO ByteString -> Pipe i ByteString ()
receiving receive = go
  where
    go = liftIO receive >>= \chunk -> if B.null chunk then pure () else yield chunk *> go

-- | Send each chunk with an action, for example to a socket.
sending :: (ByteString -> IO ()) -> Pipe ByteString o ()
sending = forEach

-- | The lines of chunks, without their newlines; the last one may lack its newline.
--
-- [Throws]: 'ItemTooLong' for a line of more than 8 MiB.
lines :: Pipe ByteString ByteString ()
lines = linesUpTo 8388608

-- | As 'lines', with another limit. It holds at most the limit and a chunk.
--
-- [Cost]: a line within one chunk shares its memory; another is copied once.
-- [Throws]: 'ItemTooLong'.
-- [Units]: bytes.
linesUpTo :: Int -> Pipe ByteString ByteString ()
linesUpTo limit = go 0 0 []
  where
    -- The line's offset, its length so far, and its pieces, the last one first.
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

-- | Add a newline to each line.
--
-- [Cost]: a copy of each line.
unlines :: Pipe ByteString ByteString ()
unlines = go where go = await >>= maybe (pure ()) (\line -> yield (B.snoc line 10) *> go)
