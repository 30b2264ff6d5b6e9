-- |
-- Module      : Heddle.Filter.Internal.Options
-- Description : How plans are run
-- Stability   : internal, exempt from the version policy
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Filter.Internal.Options
  ( FilterOptions (..),
    defaultFilterOptions,
  )
where

import Data.ByteString (ByteString)
import Heddle.Filter.Internal.Exception (SourceError)
import Heddle.Prim.Exception (throwIO)

-- | How to run a plan. Sizes are in bytes.
data FilterOptions = FilterOptions
  { -- | How many workers at most; 1 by default.
    filterJobs :: !Int,
    -- | How much is read at once, at first; 128 KiB by default.
    filterBlockSize :: !Int,
    -- | How much of a file a worker takes at once, and up to four times as much of a large
    -- one that it only counts in; files of less than two parts are not divided. A worker keeps twice as much
    -- output. 2 MiB by default.
    filterPartSize :: !Int,
    -- | How long a row may be, and how much a stage may hold back; 256 MiB by default.
    filterLongest :: !Int,
    -- | Do not print rows of a file that has a NUL near its beginning; if it has such a row,
    -- call this once with the file's name instead. 'Nothing' by default: they are printed.
    filterOnBinary :: !(Maybe (ByteString -> IO ())),
    -- | Called when all input so far has been pushed into the sink, by the thread that
    -- pushes. Nothing by default.
    filterOnFlush :: !(IO ()),
    -- | Called when a source cannot be read; the run goes on with the next source if this
    -- returns. By default it throws the error.
    filterOnError :: !(SourceError -> IO ())
  }

-- | The defaults that are given with each field.
defaultFilterOptions :: FilterOptions
defaultFilterOptions =
  FilterOptions
    { filterJobs = 1,
      filterBlockSize = 128 * 1024,
      filterPartSize = 2 * 1024 * 1024,
      filterLongest = 256 * 1024 * 1024,
      filterOnBinary = Nothing,
      filterOnFlush = pure (),
      filterOnError = throwIO
    }
