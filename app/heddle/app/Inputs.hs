-- |
-- Module      : Inputs
-- Description : Files on the command line
--
-- Shared by sub-commands that read files.
module Inputs
  ( sourceFor,
    isSafe,
    sourceMessage,
    toBytes,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import GHC.Foreign qualified as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Filter (Source, SourceError (..), fileSource, standardInput)
import Heddle.Prim.Errno (describeErrno)
import Heddle.Prim.Exception
import System.Posix.Files.ByteString
import System.Posix.IO.ByteString (stdOutput)

-- | A file by its name; @-@ is standard input.
sourceFor :: ByteString -> Source
sourceFor name = if name == Char8.pack "-" then standardInput else fileSource name

-- | Refuse to read a file to which the output goes.
isSafe :: (String -> IO ()) -> ByteString -> IO Bool
isSafe complainOf name = do
  to <- getFdStatus stdOutput
  from <- try (if name == Char8.pack "-" then getFdStatus 0 else getFileStatus name)
  case from of
    Right status
      | isRegularFile to,
        isRegularFile status,
        fileID to == fileID status,
        deviceID to == deviceID status,
        fileSize status > 0 ->
        False <$ complainOf (Char8.unpack name ++ ": this file is also the output")
    -- Opening it gives the better message.
    Left (_ :: IOException) -> pure True
    Right _ -> pure True

-- | The message for a file that cannot be read.
sourceMessage :: SourceError -> String
sourceMessage (SourceError name e) = Char8.unpack name ++ ": " ++ describeErrno e

-- | The bytes that an argument came in.
toBytes :: String -> IO ByteString
toBytes word = do
  encoding <- getFileSystemEncoding
  Foreign.withCStringLen encoding word Bytes.packCStringLen
