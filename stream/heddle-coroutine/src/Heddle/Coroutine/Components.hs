-- |
-- Module      : Heddle.Coroutine.Components
-- Description : Splitters, branches and joins
-- Stability   : stable
--
-- Components of pipelines, and functions that combine them: those of "Coroutine Pipelines" from
-- "Parting and joining the stream" on. Many share their names with functions of the Prelude, so
-- import this module qualified.
--
-- > import Heddle.Coroutine
-- > import Heddle.Coroutine.Components qualified as C
-- >
-- > -- The lines of a file that contain these characters.
-- > grep :: String -> FilePath -> Generator Char IO ()
-- > grep wanted file =
-- >   void . toGenerator $
-- >     fromGenerator (C.readFile file)
-- >       =>= C.groupBy C.line
-- >       =>= C.ifThenElse (C.any (C.substring wanted)) (lift121 (++ "\n")) (fromIteratee C.suppress)
-- >       =>= C.concatenate
--
-- A splitter is a condition on a stream: what it sends left satisfies it. It decides item by item,
-- in sections such as lines or occurrences of a word.
--
-- The base monad is arbitrary. These are ordinary coroutines; a user could write them as well.
--
-- Cost: about ten closures for an item that passes a component; each component says what it
-- holds back.
-- Owner: values; only what the base monad shares is shared.
module Heddle.Coroutine.Components
  ( -- * Branches
    ifThenElse,
    ifThenElseBy,
    groupBy,

    -- * Conditions
    line,
    substring,

    -- ** Logic
    not,
    and,
    or,
    any,
    all,

    -- * Joins
    joinTransduced,
    Outcome (..),
    flipJoin,
    append,
    interleave,
    combine,
    zipMonoids,

    -- * Sources
    readFile,
    naturals,
    repeat,

    -- * Transducers and sinks
    toString,
    concatenate,
    suppress,
  )
where

import Control.Monad.Trans.Class (lift)
import Heddle.Coroutine.Internal.Joins
import Heddle.Coroutine.Internal.Plain (Generator, Iteratee, await, yield)
import Heddle.Coroutine.Internal.Splitters
import Heddle.Coroutine.Internal.Transducer (Transducer, andThen, lift121, liftStateless)
import Heddle.Prim.Exception (evaluate)
import System.IO (IOMode (..), hGetContents, hSetEncoding, mkTextEncoding, openFile)
import Prelude hiding (all, and, any, not, or, readFile, repeat)

-- | The characters of a file, decoded as UTF-8, with U+FFFD for invalid bytes; newlines are not
-- converted. The file is opened at the first character, and closed after the last or when the
-- rest is garbage; @=>=@ runs it to the end.
--
-- [Cost]: read in blocks, as far as the consumer awaits.
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: an @IOException@, if it cannot be opened or read.
readFile :: FilePath -> Generator Char IO ()
readFile file = do
  text <- lift $ do
    h <- openFile file ReadMode
    utf8 <- mkTextEncoding "UTF-8//TRANSLIT"
    hSetEncoding h utf8
    hGetContents h
  go text
  where
    -- Evaluated here, so that the file is not read when a pure function inspects a character.
    go text =
      lift (evaluate text) >>= \case
        [] -> pure ()
        c : rest -> yield c >> go rest

-- | The numbers from 1 on; it never ends.
naturals :: Monad m => Generator Int m ()
naturals = go 1
  where
    go !n = yield n >> go (n + 1)

-- | The same value repeatedly; it never ends.
repeat :: Monad m => a -> Generator a m ()
repeat a = go
  where
    go = yield a >> go

-- | Apply 'show' to each value.
toString :: (Show a, Monad m) => Transducer a String m ()
toString = lift121 show

-- | The items of each list.
concatenate :: Monad m => Transducer [a] a m ()
concatenate = liftStateless id

-- | Await values to the end, and drop them. In print it awaits any type, so it cannot know the
-- end; @'Heddle.Coroutine.fromIteratee' suppress@ is used as in print.
suppress :: Monad m => Iteratee (Maybe a) m ()
suppress = go
  where
    go = await `andThen` const go
