-- |
-- Module      : Heddle.Filter.Internal.BlockRunner
-- Description : The front of a plan on a block of rows
-- Stability   : internal, exempt from the version policy
--
-- Searches a block for the texts that rows must have, and for the ends of a row only around a match;
-- then runs a row-parallel stage on the rows, and counts.
--
-- Cost: the search's ("Heddle.Bytes.Search"), a call for each row found, and a machine for
-- each block if there is a stage.
-- Owner: a worker's thread.
module Heddle.Filter.Internal.BlockRunner
  ( BlockRunner,
    Emit (..),
    Outcome (..),
    newBlockRunner,
    noOutcome,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.Regex (testRegex)
import Heddle.Bytes.Search
import Heddle.Bytes.Search.Block (bestLevel, countLinesAt, findByteAt, lineEnd, lineStart, linesCapacity, linesSkipped, newLines, nextLinesAt)
import Heddle.Filter.Internal.Lowering
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Plan
import Heddle.Filter.Internal.Sieve (Candidate (..), nextCandidate)
import Heddle.Filter.Internal.Types
import Heddle.Prim.Atomic (newRef, readRef, writeRef)

-- | Runs a front on a block of whole rows. The last row of the stream may lack its end.
type BlockRunner = ByteString -> Emit -> IO Outcome

-- | The consumers of a front's output. They get the block's memory, which is reused, and
-- answer 'False' if they want no more.
data Emit = Emit
  { emitPiece :: !(ByteString -> IO Bool),
    -- | The number of rows before it in the block, and a row.
    emitRow :: !(Int -> ByteString -> IO Bool)
  }

-- | The result for a block.
data Outcome = Outcome
  { -- | How many rows it has, if they are numbered; else 0.
    outcomeRows :: !Int,
    -- | What the front counted.
    outcomeCount :: !Int,
    outcomeWanted :: !Bool
  }

-- | The outcome of no block.
noOutcome :: Outcome
noOutcome = Outcome 0 0 True

-- | A runner for blocks, one after the other.
newBlockRunner :: Env -> Front -> IO BlockRunner
newBlockRunner env (Front search stage counted) = case search of
  Nothing -> pure (applied (flip push))
  Just s -> do
    rows <- newRows s
    pure $ case (stage, counted) of
      (Identity, Nothing) -> searchRows s rows
      (Identity, Just Row) -> \block _ -> do
        found <- countRows rows block
        pure (Outcome 0 (if searchPassing s then found else countLines block - found) True)
      _ -> applied (\block sink -> outcomeWanted <$> searchRows s rows block (Emit (copied sink) (const (copied sink))))
  where
    inside = env {envTopLevel = False}
    -- Strict: the copy is made before the block's memory is reused.
    copied sink piece = push sink $! Bytes.copy piece
    -- Through a separate machine for the block.
    applied feed block to = do
      count <- newRef (0 :: Int)
      wanted <- newRef True
      let give piece = emitPiece to piece >>= \ok -> ok <$ unless ok (writeRef wanted False)
      end' <- case counted of
        Nothing -> pure (Sink give (pure ()))
        Just s -> countingSink s inside (writeRef count)
      sink <- lowerStage stage inside end'
      unless (Bytes.null block) (void (feed block sink))
      finish sink
      Outcome 0 <$> readRef count <*> readRef wanted

-- How to find rows in a block.
data Rows = Rows
  { -- For each row found, until the function wants no more: the offset of the row, that of the
    -- next, and the number of rows between it and the row found before.
    eachRow :: Bool -> Ptr Word8 -> Int -> (Int -> Int -> Int -> IO Bool) -> IO (),
    countRows :: ByteString -> IO Int
  }

newRows :: Search -> IO Rows
newRows search = do
  found <- newLines 512
  let byNeedle needle numbered p size visit = go 0
        where
          go from = when (from < size) $ do
            n <- nextLinesAt needle p size from numbered found
            visitAll n 0
          visitAll n i
            | i < n = do
              start <- lineStart found i
              end' <- lineEnd found i
              skipped <- linesSkipped found i
              ok <- visit start (min size (end' + 1)) skipped
              when ok (visitAll n (i + 1))
            | n == linesCapacity found = lineEnd found (n - 1) >>= \e -> go (e + 1)
            | otherwise = pure ()
      everyRow _ p size visit = go 0
        where
          go from = when (from < size) $ do
            next <- findIn p from size
            ok <- visit False from next 0
            when ok (go next)
      bySieve sieve numbered p size visit = go 0
        where
          go from =
            nextCandidate sieve p size from numbered >>= \case
              None -> pure ()
              Candidate certain start next skipped -> visit certain start next skipped >>= \ok -> when ok (go next)
      -- The candidates that match.
      passing pattern' candidates numbered p size visit = do
        between <- newRef 0
        candidates numbered p size $ \certain start next skipped -> do
          ended <- if next > start then lastIsNewline p next else pure False
          let stop = if ended then next - 1 else next
          ok <- if certain then pure True else testRegex (patternRegex pattern') (p `plusPtr` start) (stop - start)
          before <- (+ skipped) <$> readRef between
          if ok
            then writeRef between 0 >> visit start next before
            else True <$ writeRef between (before + 1)
      counting rows block = do
        n <- newRef (0 :: Int)
        () <- onBlock block (\p size -> rows False p size (\_ _ _ -> True <$ (readRef n >>= \k -> writeRef n $! k + 1)))
        readRef n
  pure $ case searchTest search of
    Texts rule texts ->
      let needle = needleFor rule texts
       in Rows (byNeedle needle) (\block -> onBlock block (countLinesAt needle))
    Match pattern' ->
      let candidates = case (patternNeedle pattern', patternSieve pattern') of
            (Just needle, _) -> \numbered p size visit -> byNeedle needle numbered p size (visit False)
            (_, Just sieve) -> bySieve sieve
            _ -> everyRow
          rows = passing pattern' candidates
       in Rows rows (counting rows)
  where
    -- 'compile' puts no more texts into a plan than one needle takes.
    needleFor rule texts = fromMaybe (newNeedle rule (Bytes.concat texts)) (newNeedles rule texts)
    lastIsNewline p next = (== 0x0a) <$> (peekByteOff p (next - 1) :: IO Word8)
    findIn p from size = (\i -> if i < 0 then size else from + i + 1) <$> findByteAt bestLevel (p `plusPtr` from) (size - from) 0x0a

-- Emit the rows that are found in a block, or the others.
searchRows :: Search -> Rows -> ByteString -> Emit -> IO Outcome
searchRows search rows block to = onBlock block $ \p size -> do
  wanted <- newRef True
  -- The offset after the last row found, and the number of rows before that.
  behind <- newRef (0 :: Int)
  index <- newRef (0 :: Int)
  let numbered = searchNumber search /= Nothing
      slice from to' = Bytes.unsafeTake (to' - from) (Bytes.unsafeDrop from block)
      check ok = ok <$ unless ok (writeRef wanted False)
      -- The rows between two rows found.
      gap from to'
        | from >= to' = pure True
        | not numbered = emitPiece to (slice from to') >>= check
        | otherwise = do
          i <- readRef index
          eachOf i (slice from to')
      eachOf i piece = case Bytes.elemIndex 0x0a piece of
        Just n | n + 1 < Bytes.length piece -> do
          ok <- emitRow to i (Bytes.unsafeTake (n + 1) piece) >>= check
          if ok then eachOf (i + 1) (Bytes.unsafeDrop (n + 1) piece) else pure False
        _ -> emitRow to i piece >>= check
      visit start next skipped
        | searchPassing search =
          if numbered
            then do
              i <- (+ skipped) <$> readRef index
              writeRef index (i + 1)
              emitRow to i (slice start next) >>= check
            else emitPiece to (slice start next) >>= check
        | otherwise = do
          from <- readRef behind
          ok <- gap from start
          writeRef behind next
          when numbered (readRef index >>= \i -> writeRef index (i + skipped + 1))
          pure ok
  eachRow rows numbered p size visit
  ok <- readRef wanted
  unless (searchPassing search || not ok) $ do
    from <- readRef behind
    void (gap from size)
  still <- readRef wanted
  pure (Outcome (if numbered then countByte 0x0a block else 0) 0 still)

onBlock :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
onBlock block use = Bytes.unsafeUseAsCStringLen block (\(p, n) -> use (castPtr p) n)
