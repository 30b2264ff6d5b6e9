-- |
-- Module      : Heddle.Serve.FileName
-- Description : File names as the system's bytes
-- Stability   : internal, exempt from the version policy
--
-- GHC decodes a 'FilePath' of the command line with the locale's file-system encoding. Only
-- the same encoding gives its bytes back; any other conversion would name another file.
--
-- Cost: O(length).
-- Owner: values.
module Heddle.Serve.FileName
  ( fileNameBytes,
    isHiddenPath,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import GHC.Foreign qualified as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)

-- | The bytes that a file name was given in, in any locale.
--
-- [Blocks]: never.
fileNameBytes :: FilePath -> IO ByteString
fileNameBytes path = do
  encoding <- getFileSystemEncoding
  Foreign.withCStringLen encoding path B.packCStringLen

-- | Test whether a segment of a path begins with a dot; @.well-known@ is for everybody.
--
-- [Cost]: O(length).
isHiddenPath :: ByteString -> Bool
isHiddenPath path = any (\part -> C.take 1 part == C.singleton '.' && part /= wellKnown) (C.split '/' path)
  where
    wellKnown = C.pack ".well-known"
