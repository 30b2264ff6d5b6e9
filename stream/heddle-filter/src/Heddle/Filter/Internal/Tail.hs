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
-- Other sections are kept in the same way, with the places where they begin.
--
-- Cost: counting the newlines of the input, and a step for each block; for other sections a step for each.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.Tail
  ( lastRows,
    lastSections,
    leadingTail,
    beforeLastRows,
  )
where

import Control.Monad (unless, void, when)
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
import Heddle.Filter.Internal.SplitterLowering (lowerSplitter)
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

-- Blocks of a text, and where the first of them begins in it.
data Text = Text !(Seq ByteString) !Int

-- | The last true sections of a splitter, and nothing else: what is between them is not kept.
--
-- [Cost]: a copy of the true sections; in memory, the last ones and 60 bytes for each.
-- [Throws]: 'TooLong' if they take more than the machine's limit.
lastSections :: Int -> Splitter -> Env -> Sink -> IO Sink
lastSections n splitter env to
  | n <= 0 = pure (Sink (\_ -> pure False) (finish to))
  | otherwise = do
    -- The bytes of all true sections count as one text: where the last ones begin in it, the blocks of it that are still
    -- needed, where these begin, and where the text ends.
    starts <- newRef Seq.empty
    kept <- newRef (Text Seq.empty 0)
    size <- newRef (0 :: Int)
    inTrue <- newRef False
    batch <- newBatch (\piece -> True <$ (readRef kept >>= \(Text blocks from) -> writeRef kept $! Text (blocks |> piece) from))
    let forget from text@(Text blocks at) = case blocks of
          oldest :<| others | at + Bytes.length oldest <= from -> forget from (Text others (at + Bytes.length oldest))
          _ -> text
        first =
          readRef starts >>= \case
            from :<| _ -> pure from
            Empty -> readRef size
        give = \case
          piece :<| others -> (if Bytes.null piece then pure True else push to piece) >>= \ok -> if ok then give others else pure ()
          Empty -> pure ()
    lowerSplitter splitter env $
      Sections
        { begin = \label -> do
            writeRef inTrue label
            when label $ do
              here <- readRef size
              known <- (|> here) <$> readRef starts
              writeRef starts $! if Seq.length known > n then Seq.drop 1 known else known
              from <- first
              readRef kept >>= \text -> writeRef kept $! forget from text,
          more = \piece -> do
            label <- readRef inTrue
            when label $ do
              _ <- append batch piece
              end' <- (+ Bytes.length piece) <$> readRef size
              writeRef size $! end'
              from <- first
              when (end' - from > envLimit env) (throwIO (TooLong (envStage env) (envLimit env))),
          end = pure (),
          rest = \_ -> pure (),
          wantsMore = pure True,
          over = do
            _ <- passOn batch
            from <- first
            Text blocks at <- forget from <$> readRef kept
            give (Seq.adjust' (Bytes.drop (from - at)) 0 blocks)
            finish to
        }

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
