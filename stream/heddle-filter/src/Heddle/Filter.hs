-- |
-- Module      : Heddle.Filter
-- Description : Filters of streams of bytes, as data
-- Stability   : stable
--
-- Splitters, stages and joins as values: build them here or parse them with
-- "Heddle.Filter.Language", 'compile' them, and run the plan on files, standard input or any
-- reader. @heddle pipe@ is this module with options.
--
-- > -- The lines of a file that contain a text, with their numbers.
-- > grep :: ByteString -> ByteString -> IO ByteString
-- > grep text file =
-- >   runBytes
-- >     (compile (ForEach (Having Row (Substring CaseMatters text)) (Number ":") Suppress))
-- >     [fileSource file]
--
-- 'compile' rewrites a stage by laws, each of which the tests check as a property, and finds what
-- can be searched for and what can run in parallel. 'uncompiled' runs a stage as it is written.
-- The output is the same.
--
-- Cost: a plan that begins with a search costs what the search costs ("Heddle.Bytes.Search");
-- other stages cost a call or two for each piece of a section.
-- Owner: components are values. Running a plan starts threads and processes, which have ended when
-- it returns.
module Heddle.Filter
  ( -- * Splitters
    Splitter (..),
    CaseRule (..),

    -- ** Regular expressions
    Pattern,
    newPattern,
    patternText,
    patternCase,

    -- ** Sets of bytes
    ByteSet,
    byteSet,
    byteSetFrom,
    inSet,
    setName,
    namedSets,

    -- * Stages
    Stage (..),
    Joint (..),
    Translation,
    translation,
    translate,
    translationName,
    namedTranslations,
    FieldRange (..),

    -- * Plans
    Plan,
    compile,
    uncompiled,
    explain,
    Law (..),
    lawText,
    Applied (..),
    rewrite,
    rewriteSplitter,

    -- * Running
    runPlan,
    runBytes,
    stagePipe,
    FilterOptions (..),
    defaultFilterOptions,

    -- ** Sources
    Source,
    sourceName,
    fileSource,
    standardInput,
    readerSource,
    bytesSource,
    readingFrom,

    -- ** Sinks
    Sink (..),
    Output,
    newOutput,
    outputSink,
    flushOutput,
    readerGone,
    isOnlyZero,

    -- * Exceptions
    FilterException (..),
    SourceError (..),
    TooLong (..),
    CommandFailed (..),
    StageFailed (..),
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import Heddle.Filter.Internal.AsPipe
import Heddle.Filter.Internal.Exception
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Options
import Heddle.Filter.Internal.Output
import Heddle.Filter.Internal.Plan
import Heddle.Filter.Internal.Rewrite
import Heddle.Filter.Internal.Run
import Heddle.Filter.Internal.Source
import Heddle.Filter.Internal.Types
import Heddle.Filter.Internal.Vocabulary
import Heddle.Pipe (StageFailed (..))
import Heddle.Prim.Atomic (modifyRef, newRef, readRef)

-- | Run a plan, and collect its output.
--
-- [Cost]: as 'runPlan', and the memory for the result.
-- [Throws]: as 'runPlan'; 'SourceError' when a source cannot be read.
runBytes :: Plan -> [Source] -> IO ByteString
runBytes plan sources = do
  pieces <- newRef []
  -- A piece's memory may be reused after the call.
  let keep piece = let !copy = Bytes.copy piece in modifyRef pieces (\ps -> (copy : ps, ()))
  runPlan defaultFilterOptions plan sources (Sink (\piece -> True <$ keep piece) (pure ()))
  Bytes.concat . reverse <$> readRef pieces

-- | @bytesSource name sizes bytes@: bytes in memory as a source, read in pieces of these sizes;
-- the last size is used for the rest.
--
-- [Cost]: a copy.
bytesSource :: ByteString -> [Int] -> ByteString -> IO Source
bytesSource name sizes text = do
  left <- newRef (text, if null sizes then [maxBound] else sizes)
  pure . readerSource name $ \p room -> do
    piece <- modifyRef left $ \(rest', steps) -> case steps of
      step : more' ->
        let (now, later) = Bytes.splitAt (min room (max 1 step)) rest'
         in ((later, if null more' then steps else more'), now)
      [] -> ((rest', []), Bytes.empty)
    Bytes.unsafeUseAsCStringLen piece (\(from, n) -> copyBytes p (castPtr from) n)
    pure (Bytes.length piece)
