{-# LANGUAGE CPP #-}
{-# LANGUAGE OverloadedStrings #-}

-- | An application written with Scotty, as its documentation writes them.
module Apps.Scotty (application) where

#if !MIN_VERSION_scotty(0,22,0)
import Control.Monad.IO.Class (liftIO)
#endif
import Data.IORef
import Data.Text.Lazy qualified as Text
import Network.HTTP.Types (status201, status418)
import Network.Wai (Application)
import Web.Scotty

-- | Routes, parameters, forms, JSON, files, redirects, errors.
application :: FilePath -> IO Application
application path = do
  counter <- newIORef (0 :: Int)
  scottyApp $ do
    get "/hello/:name" $ do
      name <- pathParam "name"
      html ("<h1>Hello, " <> name <> "</h1>")
    post "/form" $ do
      a <- formParam "a"
      b <- formParam "b"
      text (Text.toUpper a <> b)
    post "/json" $ do
      numbers <- jsonData
      json (sum (numbers :: [Int]))
    put "/count" $ do
      n <- liftIO (atomicModifyIORef' counter (\n -> (n + 1, n + 1)))
      status status201
      json n
    get "/file" $ do
      setHeader "Content-Type" "text/x"
      file path
    get "/teapot" $ status status418 >> text "short and stout"
    get "/moved" $ redirect "/hello/there"
    get "/error" $ liftIO (ioError (userError "in an action"))
    matchAny "/any" $ text "any"
    notFound $ text "nothing here"

-- Scotty had one function for both, and then another name for the first.
#if !MIN_VERSION_scotty(0,20,0)
pathParam, formParam :: Parsable a => Text.Text -> ActionM a
pathParam = param
formParam = param
#elif !MIN_VERSION_scotty(0,21,0)
pathParam :: Parsable a => Text.Text -> ActionM a
pathParam = captureParam
#endif
