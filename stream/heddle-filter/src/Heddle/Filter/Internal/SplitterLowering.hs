-- |
-- Module      : Heddle.Filter.Internal.SplitterLowering
-- Description : Lowers splitters to machines
-- Stability   : internal, exempt from the version policy
--
-- A splitter becomes a sink that passes sections to a consumer, each as soon as the input
-- decides its label. Until then bytes are held back: a text holds back what may still become
-- an occurrence, @having@ a section in which nothing has been found yet, @last@ the sections
-- that may be among the last.
--
-- Cost: a call or two for each piece of a section. 'And', 'Or' and 'Between' hold back what
-- one side is ahead of the other.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.SplitterLowering
  ( lowerSplitter,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.Foldable (find, for_)
import Data.Maybe (isJust)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Foreign.Ptr (castPtr)
import Heddle.Bytes.Regex (searchRegex)
import Heddle.Bytes.Search (Needle, findNeedle, needleLiterals, needleRule, newNeedle)
import Heddle.Bytes.Search.Block (lineEnd, lineStart, linesCapacity, newLines, nextLinesAt)
import Heddle.Filter.Internal.Aligned
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.MemoryBudget
import Heddle.Filter.Internal.ReorderBuffer
import Heddle.Filter.Internal.Sieve (Candidate (..), nextCandidate)
import Heddle.Filter.Internal.Types
import Heddle.Prim.Atomic (modifyRef, newRef, readRef, writeRef)

-- | The machine of a splitter, which passes sections to a consumer. Its 'push' answers whether
-- the consumer wants more, and ignores its input after a 'False'.
lowerSplitter :: Splitter -> Env -> Sections -> IO Sink
lowerSplitter splitter env to = case splitter of
  Row -> rows to
  Line -> linesOf to
  Runs set -> runs set to
  Substring rule text
    | Bytes.null text -> everywhere to
    | otherwise -> occurrences (newNeedle rule text) to
  Matching p -> matches p env to
  Not s -> lowerSplitter s env to {begin = begin to . not, rest = rest to . not}
  And a b -> pointwise (&&) (lowerSplitter a env) (lowerSplitter b env) env to
  Or a b -> pointwise (||) (lowerSplitter a env) (lowerSplitter b env) env to
  Between a b -> between (lowerSplitter a env) (lowerSplitter b env) env to
  Having a b -> having True (often b env) env to >>= lowerSplitter a env
  HavingOnly a b -> having False (often b env) env to >>= lowerSplitter a env
  FollowedBy a b -> followedBy (often b env) env to >>= lowerSplitter a env
  First n s -> firstOnes n to >>= lowerSplitter s env
  Last n s -> lastOnes n env to >>= lowerSplitter s env
  Prefix s -> onlyFirst to >>= lowerSplitter s env
  Suffix s -> onlyLast env to >>= lowerSplitter s env

-- The machines of a splitter, one for each section of another: a text is prepared for all of them.
often :: Splitter -> Env -> Sections -> IO Sink
often splitter env = case splitter of
  Substring rule text | not (Bytes.null text) -> let !needle = newNeedle rule text in occurrences needle
  _ -> lowerSplitter splitter env

-- Primitive splitters --------------------------------------------------------

rows :: Sections -> IO Sink
rows to = do
  open <- newRef False
  let go piece = unless (Bytes.null piece) $ do
        inRow <- readRef open
        unless inRow (begin to True)
        case Bytes.elemIndex 0x0a piece of
          Nothing -> more to piece >> writeRef open True
          Just i -> do
            more to (Bytes.unsafeTake (i + 1) piece)
            end to
            writeRef open False
            whileWanted to (go (Bytes.unsafeDrop (i + 1) piece))
  pure . telling to go $ do
    inRow <- readRef open
    when inRow (end to)
    over to

linesOf :: Sections -> IO Sink
linesOf to = do
  open <- newRef False
  let go piece = unless (Bytes.null piece) $ do
        inLine <- readRef open
        unless inLine (begin to True)
        case Bytes.elemIndex 0x0a piece of
          Nothing -> more to piece >> writeRef open True
          Just i -> do
            when (i > 0) (more to (Bytes.unsafeTake i piece))
            end to
            writeRef open False
            begin to False
            more to (Bytes.unsafeTake 1 (Bytes.unsafeDrop i piece))
            end to
            whileWanted to (go (Bytes.unsafeDrop (i + 1) piece))
  pure . telling to go $ do
    inLine <- readRef open
    when inLine (end to)
    over to

runs :: ByteSet -> Sections -> IO Sink
runs set to = do
  now <- newRef Nothing
  let go piece = unless (Bytes.null piece) $ do
        let label = inSet set (Bytes.unsafeHead piece)
            (run, others) = Bytes.span (\b -> inSet set b == label) piece
        before <- readRef now
        unless (before == Just label) $ do
          for_ before (\_ -> end to)
          begin to label
          writeRef now (Just label)
        more to run
        unless (Bytes.null others) (whileWanted to (go others))
  pure . telling to go $ do
    before <- readRef now
    for_ before (\_ -> end to)
    over to

-- The empty text occurs before every byte and at the end.
everywhere :: Sections -> IO Sink
everywhere to = pure (telling to go (place >> over to))
  where
    go piece = for_ (Bytes.uncons piece) (\(b, others) -> byte b >> whileWanted to (go others))
    place = begin to True >> end to
    byte b = place >> begin to False >> more to (Bytes.singleton b) >> end to

occurrences :: Needle -> Sections -> IO Sink
occurrences needle to = do
  -- The longest suffix of the input so far that may still become an occurrence.
  carried <- newRef Bytes.empty
  inFalse <- newRef False
  let rule = needleRule needle
      text = Bytes.concat (needleLiterals needle)
      size = Bytes.length text
      others piece = unless (Bytes.null piece) $ do
        open <- readRef inFalse
        unless open (begin to False >> writeRef inFalse True)
        more to piece
      endOthers = do
        open <- readRef inFalse
        when open (end to >> writeRef inFalse False)
      folded = fold text
      fold = case rule of
        CaseMatters -> id
        IgnoreAsciiCase -> Bytes.map (\b -> if b >= 0x41 && b <= 0x5a then b + 0x20 else b)
      go piece = case findNeedle needle piece of
        Just i -> do
          others (Bytes.unsafeTake i piece)
          endOthers
          begin to True
          more to (Bytes.unsafeTake size (Bytes.unsafeDrop i piece))
          end to
          whileWanted to (go (Bytes.unsafeDrop (i + size) piece))
        Nothing -> do
          let tails = Bytes.tails (fold (Bytes.drop (Bytes.length piece - size + 1) piece))
              kept = maybe 0 Bytes.length (find (`Bytes.isPrefixOf` folded) tails)
              told = Bytes.length piece - kept
          others (Bytes.unsafeTake told piece)
          writeRef carried (Bytes.copy (Bytes.unsafeDrop told piece))
      joined piece = do
        before <- readRef carried
        writeRef carried Bytes.empty
        go (if Bytes.null before then piece else before <> piece)
  pure . telling to joined $ do
    readRef carried >>= others
    endOthers
    over to

-- Row by row, since an expression matches within a row.
matches :: Pattern -> Env -> Sections -> IO Sink
matches p env to = do
  budget <- newBudget env
  before <- newRef []
  inFalse <- newRef False
  let others piece = unless (Bytes.null piece) $ do
        open <- readRef inFalse
        unless open (begin to False >> writeRef inFalse True)
        more to piece
      endOthers = do
        open <- readRef inFalse
        when open (end to >> writeRef inFalse False)
      -- A row, and its length without its newline.
      row whole size = Bytes.unsafeUseAsCString whole $ \address -> do
        let go told from lastEnd
              | from > size = others (Bytes.unsafeDrop told whole)
              | otherwise =
                searchRegex (patternRegex p) (castPtr address) size from >>= \case
                  Nothing -> others (Bytes.unsafeDrop told whole)
                  Just (start, stop)
                    -- An empty match right after a match does not count.
                    | start == stop && Just start == lastEnd -> go told (start + 1) Nothing
                    | otherwise -> do
                      others (Bytes.unsafeTake (start - told) (Bytes.unsafeDrop told whole))
                      endOthers
                      begin to True
                      when (stop > start) (more to (Bytes.unsafeTake (stop - start) (Bytes.unsafeDrop start whole)))
                      end to
                      whileWanted to (go stop (if stop > start then stop else stop + 1) (Just stop))
        go 0 0 Nothing
      feed piece = do
        begun <- not . null <$> readRef before
        case (patternNeedle p, patternSieve p) of
          (Just needle, _) | not begun -> sifted needle piece
          (_, Just sieve) | not begun -> sieved sieve piece
          _ -> rowByRow begun piece
      -- The rows without a text that every match has are not given to the matcher, but passed on together. The piece begins a row.
      sifted needle piece = do
        found <- newLines 16
        let size = maybe 0 (+ 1) (Bytes.elemIndexEnd 0x0a piece)
            slice start stop = Bytes.unsafeTake (stop - start) (Bytes.unsafeDrop start piece)
            go from = do
              n <- Bytes.unsafeUseAsCString piece (\address -> nextLinesAt needle (castPtr address) size from False found)
              visit from 0 n
            visit told i n
              | i < n = do
                start <- lineStart found i
                stop <- lineEnd found i
                others (slice told start)
                row (slice start (stop + 1)) (stop - start)
                whileWanted to (visit (stop + 1) (i + 1) n)
              | n == linesCapacity found = go told
              | otherwise = others (slice told size)
        go 0
        whileWanted to (rowByRow False (Bytes.unsafeDrop size piece))
      -- The same for the rows without what stands together in every match.
      sieved sieve piece = do
        let size = maybe 0 (+ 1) (Bytes.elemIndexEnd 0x0a piece)
            slice start stop = Bytes.unsafeTake (stop - start) (Bytes.unsafeDrop start piece)
            go told =
              Bytes.unsafeUseAsCString piece (\address -> nextCandidate sieve (castPtr address) size told False) >>= \case
                None -> others (slice told size)
                Candidate _ start next _ -> do
                  others (slice told start)
                  row (slice start next) (next - start - 1)
                  whileWanted to (go next)
        go 0
        whileWanted to (rowByRow False (Bytes.unsafeDrop size piece))
      rowByRow begun piece = unless (Bytes.null piece) $ case Bytes.elemIndex 0x0a piece of
        Nothing -> do
          charge budget piece
          modifyRef before (\pieces -> (piece : pieces, ()))
        Just i -> do
          earlier <- readRef before
          let here = Bytes.unsafeTake (i + 1) piece
              whole = if begun then Bytes.concat (reverse (here : earlier)) else here
          refund budget (Bytes.length whole - i - 1)
          writeRef before []
          row whole (Bytes.length whole - 1)
          whileWanted to (feed (Bytes.unsafeDrop (i + 1) piece))
  pure . telling to feed $ do
    earlier <- readRef before
    unless (null earlier) $ let whole = Bytes.concat (reverse earlier) in row whole (Bytes.length whole)
    endOthers
    over to

-- A sink that feeds a splitter as long as the consumer wants more.
telling :: Sections -> (ByteString -> IO ()) -> IO () -> Sink
telling to go =
  Sink $ \piece -> do
    ok <- wantsMore to
    if ok then go piece >> wantsMore to else pure False

-- After a section: go on if the consumer wants more.
whileWanted :: Sections -> IO () -> IO ()
whileWanted to go = wantsMore to >>= \ok -> when ok go
{-# INLINE whileWanted #-}

-- A consumer of labels only.
deciding :: (Bool -> IO ()) -> IO Bool -> Sections
deciding found undecided = Sections found (\_ -> pure ()) (pure ()) (\_ -> pure ()) undecided (pure ())

-- Splitters of splitters -----------------------------------------------------

-- @having True@: the true sections in which the other splitter finds a true section.
-- @having False@: those in which it finds no false one.
having :: Bool -> (Sections -> IO Sink) -> Env -> Sections -> IO Sections
having sought other env to = do
  budget <- newBudget env
  kept <- newRef []
  -- The other splitter's machine for this section, while the section is undecided.
  looking <- newRef Nothing
  let flush label = do
        begin to label
        pieces <- readRef kept
        writeRef kept []
        mapM_ (more to) (reverse pieces)
        refund budget (sum (map Bytes.length pieces))
      -- The other splitter has found a section with this label.
      found label = when (label == sought) $ do
        undecided <- readRef looking
        for_ undecided $ \_ -> writeRef looking Nothing >> flush sought
  pure
    to
      { begin = \label ->
          if label
            then do
              sink <- other (deciding found (isJust <$> readRef looking))
              writeRef looking (Just sink)
            else begin to False,
        more = \piece ->
          readRef looking >>= \case
            Nothing -> more to piece
            Just sink -> do
              charge budget piece
              modifyRef kept (\pieces -> (piece : pieces, ()))
              void (push sink piece),
        end = do
          undecided <- readRef looking
          for_ undecided finish
          still <- readRef looking
          for_ still $ \_ -> writeRef looking Nothing >> flush (not sought)
          end to,
        rest = \label -> unless label (rest to False)
      }

-- The true sections after which the other splitter's first section is true.
followedBy :: (Sections -> IO Sink) -> Env -> Sections -> IO Sections
followedBy other env to = do
  budget <- newBudget env
  buffer <- newReorderBuffer budget to
  -- The machines that check the stream after a section, with the section's number.
  watching <- newRef []
  let decide n label = settle buffer n label >> modifyRef watching (\ws -> (filter ((/= n) . fst) ws, ()))
  pure
    Sections
      { begin = \label -> void (beginSection buffer (if label then Nothing else Just False)),
        more = \piece -> do
          appendPiece buffer piece
          ws <- readRef watching
          for_ (reverse ws) (\(_, sink) -> push sink piece)
          release buffer,
        end = do
          (n, known) <- endSection buffer
          when (known == Nothing) $ do
            undecided <- newRef True
            sink <- other (deciding (\label -> writeRef undecided False >> decide n label) (readRef undecided))
            modifyRef watching (\ws -> ((n, sink) : ws, ()))
          release buffer,
        rest = \_ -> pure (),
        wantsMore = wantsMore to,
        over = do
          ws <- readRef watching
          for_ (reverse ws) (finish . snd)
          still <- readRef watching
          for_ still (\(n, _) -> settle buffer n False)
          release buffer
          over to
      }

firstOnes :: Int -> Sections -> IO Sections
firstOnes n to = do
  left <- newRef n
  now <- newRef False
  when (n <= 0) (rest to False)
  pure
    to
      { begin = \label -> do
          k <- readRef left
          writeRef now label
          begin to (label && k > 0)
          when label (writeRef left (k - 1)),
        end = do
          end to
          label <- readRef now
          k <- readRef left
          when (label && k == 0) (rest to False),
        rest = \label -> unless label (rest to False)
      }

lastOnes :: Int -> Env -> Sections -> IO Sections
lastOnes n env to = do
  budget <- newBudget env
  buffer <- newReorderBuffer budget to
  -- The numbers of the true sections that may be among the last.
  candidates <- newRef Seq.empty
  pure
    Sections
      { begin = \label ->
          if label && n > 0
            then do
              number <- beginSection buffer Nothing
              numbers <- (|> number) <$> readRef candidates
              case numbers of
                oldest :<| younger | Seq.length numbers > n -> settle buffer oldest False >> writeRef candidates younger
                _ -> writeRef candidates numbers
              release buffer
            else beginSection buffer (Just False) >> release buffer,
        more = \piece -> appendPiece buffer piece >> release buffer,
        end = endSection buffer >> release buffer,
        rest = \_ -> pure (),
        wantsMore = wantsMore to,
        over = do
          numbers <- readRef candidates
          for_ numbers (\number -> settle buffer number True)
          release buffer
          over to
      }

onlyFirst :: Sections -> IO Sections
onlyFirst to = do
  first <- newRef True
  pure
    to
      { begin = \label -> do
          isFirst <- readRef first
          writeRef first False
          begin to (label && isFirst),
        end = end to >> rest to False,
        rest = \label -> unless label (rest to False)
      }

onlyLast :: Env -> Sections -> IO Sections
onlyLast env to = do
  budget <- newBudget env
  buffer <- newReorderBuffer budget to
  newest <- newRef Nothing
  let another label = do
        before <- readRef newest
        for_ before (\number -> settle buffer number False)
        number <- beginSection buffer (if label then Nothing else Just False)
        writeRef newest (Just number)
        release buffer
  pure
    Sections
      { begin = another,
        more = \piece -> appendPiece buffer piece >> release buffer,
        end = endSection buffer >> release buffer,
        rest = \_ -> pure (),
        wantsMore = wantsMore to,
        over = do
          last' <- readRef newest
          for_ last' (\number -> settle buffer number True)
          release buffer
          over to
      }
