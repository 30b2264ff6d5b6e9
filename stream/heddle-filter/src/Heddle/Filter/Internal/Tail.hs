-- |
-- Module      : Heddle.Filter.Internal.Tail
-- Description : The last rows of a stream, and of a file
-- Stability   : internal, exempt from the version policy
--
-- Keeps the blocks that hold the last rows, with the number of newlines in each, and drops the
-- oldest once there are enough newlines after it. Row boundaries are searched for only at the
-- end of the stream. A regular file is read from the newline before its last rows, which is
-- found by reading blocks backwards.
--
-- Cost: counting the newlines of the input, and a step for each block.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.Tail
  ( lastRows,
    leadingTail,
    beforeLastRows,
  )
where

import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.Int (Int64)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Search (countByte)
import Heddle.Bytes.Search.Block (bestLevel, countByteAt, findByteEndAt)
import Heddle.Filter.Internal.Batch
import Heddle.Filter.Internal.Exception (TooLong (..))
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Types
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception

-- | The number of rows, if the stage begins by selecting the last rows of its input.
leadingTail :: Stage -> Maybe Int
leadingTail = \case
  a :> _ -> leadingTail a
  a :|| _ -> leadingTail a
  If (Last n Row) Identity Suppress -> Just n
  _ -> Nothing

-- A block, and the number of newlines in it.
data Block = Block !ByteString !Int

-- Blocks in order, none empty, and the number of newlines and of bytes in them.
data Kept = Kept !(Seq Block) !Int !Int

-- | The last rows. The machine's limit is on their bytes.
lastRows :: Int -> Env -> Sink -> IO Sink
lastRows n env to
  | n <= 0 = pure (Sink (\_ -> pure False) (finish to))
  | otherwise = do
    ref <- newRef (Kept Seq.empty 0 0)
    -- An empty block from a stage upstream would hide whether the last row has its newline.
    let keep piece = unless (Bytes.null piece) $ do
          Kept blocks newlines bytes <- readRef ref
          let here = countByte 0x0a piece
              kept = withoutOld n (Kept (blocks |> Block piece here) (newlines + here) (bytes + Bytes.length piece))
          within kept >>= writeRef ref
        within kept@(Kept _ _ bytes)
          | bytes <= envLimit env = pure kept
          | Kept _ _ least <- exactly n kept, least > envLimit env = throwIO (TooLong (envStage env) (envLimit env))
          | otherwise = pure (exactly n kept)
        give = \case
          Block piece _ :<| others -> push to piece >>= \ok -> if ok then give others else pure ()
          Empty -> pure ()
    batch <- newBatch (\piece -> True <$ keep piece)
    pure . ignoring (void . append batch) $ do
      _ <- passOn batch
      Kept blocks _ _ <- exactly n <$> readRef ref
      writeRef ref (Kept Seq.empty 0 0)
      give blocks
      finish to

-- Drop the oldest blocks while the others have a newline before the last rows.
withoutOld :: Int -> Kept -> Kept
withoutOld n kept = case kept of
  Kept (Block piece here :<| others) newlines bytes
    | newlines - here > n -> withoutOld n (Kept others (newlines - here) (bytes - Bytes.length piece))
  _ -> kept

-- Exactly the last rows.
exactly :: Int -> Kept -> Kept
exactly n kept@(Kept blocks newlines _) = case blocks of
  _ :|> Block newest _ -> dropRows (newlines - (if Bytes.last newest == 0x0a then n else n - 1)) kept
  Empty -> kept

-- Drop the first rows.
dropRows :: Int -> Kept -> Kept
dropRows rows kept = case kept of
  Kept (Block piece here :<| others) newlines bytes
    | rows > here -> dropRows (rows - here) (Kept others (newlines - here) (bytes - Bytes.length piece))
    | rows > 0 ->
      let left = afterRows rows piece
          size = bytes - Bytes.length piece + Bytes.length left
       in Kept (if Bytes.null left then others else Block left (here - rows) :<| others) (newlines - rows) size
  _ -> kept

-- The text after the first newlines.
afterRows :: Int -> ByteString -> ByteString
afterRows rows piece
  | rows > 0, Just i <- Bytes.elemIndex 0x0a piece = afterRows (rows - 1) (Bytes.unsafeDrop (i + 1) piece)
  | otherwise = piece

-- | Where to start reading a file of which only the last rows are wanted, as part of a stream:
-- @beforeLastRows reading size (from, to) rows@ is the offset of the newline that is followed by
-- @rows@ others, or @from@ if there is none or a read fails. That newline is read too, because what
-- comes from an earlier file may end within a row. @reading@ reads at an offset, @size@ bytes at once.
--
-- [Cost]: reading and counting the bytes after that place, in memory of one block.
beforeLastRows :: (Ptr Word8 -> Int -> Int64 -> IO Int) -> Int -> (Int64, Int64) -> Int -> IO Int64
beforeLastRows reading size (from, to) rows = allocaBytes size (\p -> go p to rows)
  where
    go p end' behind
      | end' <= from = pure from
      | otherwise = do
        let n = fromIntegral (min (fromIntegral size) (end' - from))
            start = end' - fromIntegral n
        r <- reading p n start
        -- The file has been truncated meanwhile.
        if r /= n
          then pure from
          else do
            found <- countByteAt bestLevel p n 0x0a
            if found > behind
              then (\i -> start + fromIntegral i) <$> place p n behind
              else go p start (behind - found)
    -- The newline in this block that is followed by this many others.
    place p n behind = do
      i <- findByteEndAt bestLevel p n 0x0a
      if behind <= 0 then pure i else place p i (behind - 1)
