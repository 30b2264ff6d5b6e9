-- | The example of "Heddle.Http.Client", which is run, and compared with the text there.
module ClientExample
  ( download,
  )
where

import Data.ByteString (ByteString)
import Heddle.Http.Client

download :: Client -> ByteString -> IO ByteString
download client address = case parseUrl address of
  Left e -> fail (describeUrlError e)
  Right url -> do
    fetched <- fetch client (requestUrl url) 1000000
    if statusCode (fetchedStatus fetched) == 200
      then pure (fetchedContent fetched)
      else fail (show (fetchedStatus fetched))
